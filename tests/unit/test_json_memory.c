/* Blocks of memory for documents: separate, aligned, freed by any thread, checked when they are freed. */
#include "base/json.h"
#include "base/json_memory.h"
#include "tests/unit/tap.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 4000 };

static size_t size_of(int i)
{
    return i % 97 == 0 ? (size_t)i * 7 : (size_t)(i % 530);
}

static void fill(unsigned char **block)
{
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = rp_json_block(size_of(i));
        CHECK(block[i] && (uintptr_t)block[i] % 16 == 0, "block %d", i);
        memset(block[i], i % 251, size_of(i));
    }
}

static void empty(unsigned char **block)
{
    for (int i = 0; i < BLOCKS; i++) {
        for (size_t k = 0; k < size_of(i); k++)
            CHECK(block[i][k] == i % 251, "byte %zu of block %d was written by another", k, i);
        rp_json_block_free(block[i]);
    }
}

TEST(blocks_keep_apart_and_are_given_out_again)
{
    static unsigned char *block[BLOCKS];
    rp_json_memory();
    rp_json_block_free(NULL);
    for (int i = 0; i < 3; i++) {
        fill(block);
        empty(block);
    }
    void *p = rp_json_block(100);
    rp_json_block_free(p);
    CHECK(rp_json_block(97) == p, "what was freed is not given out again");
    rp_json_block_free(p);
}

static void *in_thread(void *block)
{
    fill(block);
    return NULL;
}

TEST(one_thread_frees_what_another_got)
{
    static unsigned char *block[4][BLOCKS];
    pthread_t thread[4];
    rp_json_memory();
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, in_thread, block[i]) == 0, "a thread");
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 4; i++)
        empty(block[i]);
    fill(block[0]);
    empty(block[0]);
}

static void twice(char *p)
{
    rp_json_block_free(p);
    rp_json_block_free(p);
}
static void over_the_end(char *p)
{
    char *next = rp_json_block(64);
    for (; next != p + 80; next = rp_json_block(64)) /* a new chunk gives them side by side */
        p = next;
    memset(p, 'x', 80);
    rp_json_block_free(next);
}
static void never_given_out(char *p)
{
    memset(p, 0, 64);
    rp_json_block_free(p + 32);
}
static void written_after_it_was_freed(char *p)
{
    rp_json_block_free(p);
    memset(p - 16, 'x', 8);
    rp_json_block_free(rp_json_block(64));
}

static int ends_with(enum rp_code code, void (*fault)(char *))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        fault(rp_json_block(64));
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == rp_exit_status(code);
}

TEST(a_damaged_heap_ends_the_program)
{
    rp_json_memory();
    CHECK(ends_with(RP_BUG, twice), "freed twice");
    CHECK(ends_with(RP_BUG, over_the_end), "written over the end");
    CHECK(ends_with(RP_BUG, never_given_out), "never given out");
    CHECK(ends_with(RP_BUG, written_after_it_was_freed), "written after it was freed");
}

static void more_than_there_is(char *p)
{
    (void)p;
    (void)rp_json_block(SIZE_MAX - 8);
}

TEST(block_that_there_is_no_memory_for_ends_the_program)
{
    rp_json_memory();
    CHECK(ends_with(RP_UNAVAILABLE, more_than_there_is), "more than there is");
}

TEST(documents_live_in_it)
{
    static const char text[] = "{\"a\": [1, 2.5, \"three\", {\"b\": null}], \"c\": \"d\"}";
    struct rp_err err;
    RP_BUF again = {0};
    rp_json_memory();
    for (int i = 0; i < 100; i++) {
        RP_JSON *j = rp_json_parse(text, sizeof text - 1, "text", &err);
        CHECK(j, "%s", err.msg);
        again.size = 0;
        rp_json_write_line(&again, j);
        CHECK_STR(again.data, "{\"a\":[1,2.5,\"three\",{\"b\":null}],\"c\":\"d\"}\n");
    }
    json_set_alloc_funcs(malloc, free);
}
