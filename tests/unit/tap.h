/* Unit tests: a file of TEST(name) { ... } is a whole program that prints TAP.
 *
 * What:    CHECK(condition) or CHECK(condition, "format", ...) notes a failure and goes on; CHECK_STR compares texts;
 *          SKIP(reason) leaves the test. Arguments of the program select tests by a part of their name. SAID(text)
 *          compares a message with the next line of the test in tests/unit/words/PROGRAM.txt, so that no test repeats a
 *          sentence; RP_UPDATE=1 in the environment writes these files. tap_long() is set with LONG=1: every form of
 *          what is else taken in turn.
 *          With TAP_FIRST=1 the first check that fails ends the process: for planted faults.
 * Flow:    TEST() puts a pointer into the section rp_tests; main() below walks it, in the order of the source. Exit
 *          status 1 if a check failed.
 * Owner:   include from one file per program (one with a main() of its own defines TAP_NO_MAIN and looks at
 *          tap_failures); the working directory is the top of the repository.
 * Extend:  write tests/unit/test_<module>.c (or tests/ops/...): the Makefile finds it by its name.
 */
#pragma once

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct tap_test {
    const char *name;
    void (*run)(void);
};

__attribute__((unused)) static int tap_long(void)
{
    const char *text = getenv("LONG");
    return text && *text && strcmp(text, "0") != 0;
}

static atomic_int tap_failures; /* of the test that runs; checks may come from several threads */
__attribute__((unused)) static const char *tap_skipped;

#if __has_attribute(no_reorder) /* GCC, which else puts the last variable of a file first */
#define TAP_IN_ORDER used, no_reorder, section("rp_tests")
#else
#define TAP_IN_ORDER used, section("rp_tests")
#endif
#define TEST(name)                                                                                                     \
    static void test_##name(void);                                                                                     \
    static const struct tap_test tap_##name = {#name, test_##name};                                                    \
    static const struct tap_test *const tap_pointer_##name __attribute__((TAP_IN_ORDER)) = &tap_##name;                \
    static void test_##name(void)

#define CHECK(cond, ...) tap_check(!!(cond), __FILE__, __LINE__, #cond, " " __VA_ARGS__)
#define CHECK_STR(got, expected) tap_check_str(__FILE__, __LINE__, #got, got, expected)
#define SKIP(reason)                                                                                                   \
    do {                                                                                                               \
        tap_skipped = (reason);                                                                                        \
        return;                                                                                                        \
    } while (0)

__attribute__((unused, format(printf, 5, 6))) static int tap_check(int good, const char *file, int line,
                                                                   const char *text, const char *format, ...)
{
    if (good)
        return 1;
    va_list ap;
    char why[512];
    va_start(ap, format);
    vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    printf("# %s:%d: CHECK(%s)%s%s\n", file, line, text, why[1] ? ":" : "", why[1] ? why : "");
    atomic_fetch_add(&tap_failures, 1);
    if (getenv("TAP_FIRST")) {
        fflush(stdout);
        _exit(1);
    }
    return 0;
}

__attribute__((unused)) static int tap_check_str(const char *file, int line, const char *text, const char *got,
                                                 const char *expected)
{
    if (got == expected || (got && expected && strcmp(got, expected) == 0))
        return 1;
    printf("# %s:%d: %s\n#   is       '%s'\n#   expected '%s'\n", file, line, text, got ? got : "(null)",
           expected ? expected : "(null)");
    atomic_fetch_add(&tap_failures, 1);
    return 0;
}

/* ---- words ---- */

/* a path that is another one every time: "DIR" in the words; see scratch.h */
__attribute__((unused)) static const char *tap_hidden;
static FILE *tap_words;                                /* of the test that runs; NULL: nobody compares them */

#define SAID(text) tap_said(text)
#define REFUSED(cond, message) (CHECK(cond, "%s", message), SAID(message)) /* a failure with its message */

/* Is it a time like 2026-11-21T06:27:54Z of the last ten minutes? Fixtures have times of their own, of other days. */
static int tap_is_now(const char *text)
{
    struct tm t = {0};
    const char *end = strlen(text) >= 20 && text[10] == 'T' ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &t) : NULL;
    const time_t now = time(NULL), at = end == text + 20 ? timegm(&t) : 0;
    return at && at <= now && at > now - 600;
}

/* One line; what differs every time is masked: digests, the time, names of temporary directories, numbers that are
 * sizes of this machine, and the size of a bundle, in which every line of verify.sh counts. */
__attribute__((unused)) static void tap_said(const char *text)
{
    static const char sized[] = "members, ";
    size_t n;
    if (!tap_words)
        return;
    for (; *text; text += n) {
        size_t hex = strspn(text, "0123456789abcdef"), hidden = tap_hidden ? strlen(tap_hidden) : 0;
        n = hex ? hex : 1;
        if (hex == 4 && tap_is_now(text))
            fputs("NOW", tap_words), n = 20;
        else if (hex == 16 && strncmp(text + hex, "...", 3) == 0) /* of a digest, also if it has no letter */
            fputs("DIGEST", tap_words);
        else if (hex >= 10 && strspn(text, "0123456789") == hex)
            fputs("N", tap_words);
        else if (strncmp(text, sized, strlen(sized)) == 0 && strspn(text + strlen(sized), "0123456789"))
            fprintf(tap_words, "%sN", sized), n = strlen(sized) + strspn(text + strlen(sized), "0123456789");
        else if (hidden && strncmp(text, tap_hidden, hidden) == 0)
            fputs("DIR", tap_words), n = hidden;
        else if (hex >= 16)
            fputs("DIGEST", tap_words);
        else if (*text == '\n')
            fputs(text[1] == '\n' ? "\n" : text[1] ? "\n  " : "", tap_words);
        else
            fwrite(text, 1, n, tap_words);
    }
    fputc('\n', tap_words);
}

#ifndef TAP_NO_MAIN
static char *tap_words_text;
static size_t tap_words_size;

/* The lines of a test in a file of words: after "=== NAME" up to the next one. */
static const char *tap_section(const char *file, const char *name, size_t *n)
{
    char head[128];
    snprintf(head, sizeof head, "\n=== %s\n", name);
    const char *at = file ? strstr(file, head) : NULL;
    at = at ? at + strlen(head) : "";
    const char *end = strstr(at, "\n=== ");
    *n = end ? (size_t)(end + 1 - at) : strlen(at);
    return at;
}

static char *tap_words_file(char path[128])
{
    const char *base = strrchr(__BASE_FILE__, '/');
    snprintf(path, 128, "tests/unit/words/%s", base ? base + 1 : __BASE_FILE__);
    strcpy(strrchr(path, '.'), ".txt");
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    char *text = calloc(1, size + 1);
    rewind(f);
    if (!text || fread(text, 1, size, f) != size)
        abort();
    fclose(f);
    return text;
}

/* Are they those of the file? The first line that differs is shown. */
static void tap_words_compare(const char *file, const char *name, FILE *update)
{
    size_t n, line = 0;
    fflush(tap_words);
    const char *is = tap_words_text, *expected = tap_section(file, name, &n);
    if (update && (tap_skipped ? n : tap_words_size))
        fprintf(update, "=== %s\n%.*s", name, (int)(tap_skipped ? n : tap_words_size), tap_skipped ? expected : is);
    if (update)
        fflush(update); /* children of the next test would write the buffer once more */
    if (update || tap_skipped || (n == tap_words_size && memcmp(is, expected, n) == 0))
        return;
    for (size_t i = 0; i < n && is[i] == expected[i]; i++)
        line = is[i] == '\n' ? i + 1 : line;
    int length = (int)strcspn(expected + line, "\n");
    tap_check(0, "tests/unit/words", (int)line, name, " said '%.*s', expected '%.*s'", (int)strcspn(is + line, "\n"),
              is + line, line < n ? length : 0, expected + line);
}

/* The sections of `text` in the order in which `order` has them; not those that `but` has. */
static void tap_sections_put(FILE *to, const char *order, const char *text, const char *but)
{
    char name[100];
    for (const char *p = order; p && (p = strstr(p, "\n=== ")); p++) {
        size_t n, other = 0;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 5, "\n"), p + 5);
        const char *at = tap_section(text, name, &n);
        if (but)
            tap_section(but, name, &other);
        if (n && !other)
            fprintf(to, "=== %s\n%.*s", name, (int)n, at);
    }
}

/* In the order of the old file, and new ones at the end: the linker decides the order in which tests run. */
static void tap_words_write(const char *path, const char *old, FILE *from)
{
    static const char title[] = "Words of this test program, written with RP_UPDATE=1.\n";
    const size_t size = from ? (size_t)ftell(from) : 0;
    FILE *to = size ? fopen(path, "w") : NULL;
    char *text = to ? calloc(1, sizeof title + size) : NULL;
    if (text) {
        rewind(from);
        strcpy(text, title);
        if (fread(text + strlen(title), 1, size, from) != size)
            abort();
        fputs(title, to);
        tap_sections_put(to, old, text, NULL);
        tap_sections_put(to, text, text, old);
        free(text);
    }
    if (to)
        fclose(to);
    if (from)
        fclose(from);
}

extern const struct tap_test *const __start_rp_tests[];
extern const struct tap_test *const __stop_rp_tests[];

static int tap_selected(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return 1;
    return argc < 2;
}

int main(int argc, char **argv)
{
    int n = 0, failed = 0;
    char path[128], *words = tap_words_file(path);
    FILE *update = getenv("RP_UPDATE") && argc < 2 ? tmpfile() : NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const struct tap_test *const *t = __start_rp_tests; t < __stop_rp_tests; t++)
        n += tap_selected((*t)->name, argc, argv);
    printf("1..%d\n", n);
    n = 0;
    for (const struct tap_test *const *t = __start_rp_tests; t < __stop_rp_tests; t++) {
        if (!tap_selected((*t)->name, argc, argv))
            continue;
        atomic_store(&tap_failures, 0);
        tap_skipped = NULL;
        tap_words = open_memstream(&tap_words_text, &tap_words_size);
        (*t)->run();
        tap_words_compare(words, (*t)->name, update);
        fclose(tap_words);
        free(tap_words_text);
        int bad = atomic_load(&tap_failures) != 0;
        failed += bad;
        printf("%sok %d - %s%s%s\n", bad ? "not " : "", ++n, (*t)->name, tap_skipped && !bad ? " # SKIP " : "",
               tap_skipped && !bad ? tap_skipped : "");
    }
    tap_words = NULL;
    tap_words_write(path, words, update);
    free(words);
    return failed != 0;
}
#endif
