/* A machine's files, written out below a directory that then stands in for "/".
 *
 * What:    tests/hosts/NAME/tree.txt:
 *              @ /path [mode=000] [nul] [hex=...] [fill=BYTES] [dir] [fifo] [-> target]
 *              | a line of the file (nul: lines end with NUL instead)
 * Flow:    host_tree(NAME) -> the root directory -> rp_capture() with that root.
 * Owner:   the directory is removed with the scratch directory of the program.
 * Extend:  a new kind of file is a word in make_entry().
 */
#pragma once

#include "base/buf.h"
#include "tests/unit/golden.h"
#include "tests/unit/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        CHECK(mkdir(path, 0755) == 0 || errno == EEXIST, "mkdir %s", path);
        *p = '/';
    }
}

static void write_new(const char *path, const struct rp_buf *bytes, mode_t mode)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL, "%s", path);
    if (!f)
        return;
    fwrite(rp_buf_text(bytes), 1, bytes->size, f);
    fclose(f);
    CHECK(chmod(path, mode) == 0, "%s", path);
}

/* One entry, once all of its lines are there. */
static void make_entry(const char *root, const char *head, const struct rp_buf *lines)
{
    char *spec = strchr(head, ' ');
    RP_FREE char *path = rp_asprintf("%s%.*s", root, spec ? (int)(spec - head) : (int)strlen(head), head);
    const char *words = spec ? spec : "", *arrow = strstr(words, " -> "), *hex = strstr(words, "hex="),
               *fill = strstr(words, "fill=");
    mode_t mode = strstr(words, "mode=000") ? 0 : 0644;
    make_parents(path);
    if (arrow) {
        CHECK(symlink(arrow + 4, path) == 0, "%s", path);
    } else if (strstr(words, " fifo")) {
        CHECK(mkfifo(path, 0644) == 0, "%s", path);
    } else if (strstr(words, " dir")) {
        CHECK(mkdir(path, mode ? 0755 : 0) == 0, "%s", path);
    } else if (hex || fill) {
        RP_BUF bytes = {0};
        size_t n = hex ? strspn(hex + 4, "0123456789abcdef") / 2 : (size_t)atol(fill + 5);
        char *at = rp_alloc(n + 1);
        if (hex) {
            RP_FREE char *digits = rp_asprintf("%.*s", (int)n * 2, hex + 4);
            CHECK(rp_unhex(at, n, digits) == 0, "%s", head);
        } else
            memset(at, 'x', n);
        rp_buf_add(&bytes, at, n);
        free(at);
        write_new(path, &bytes, mode);
    } else
        write_new(path, lines, mode);
}

/* tests/hosts/NAME/tree.txt below a new directory, which is the answer. */
static __attribute__((unused)) const char *host_tree(const char *name)
{
    RP_FREE char *tree = rp_asprintf("tests/hosts/%s/tree.txt", name);
    const char *root = scratch_new();
    RP_BUF text = {0}, lines = {0};
    struct rp_err err;
    char *head = NULL, *save = NULL;
    CHECK(rp_read_file(&text, tree, 1 << 20, &err) == 0, "%s", err.msg);
    for (char *l = text.data ? strtok_r(text.data, "\n", &save) : NULL; l; l = strtok_r(NULL, "\n", &save)) {
        if (l[0] == '@') {
            if (head)
                make_entry(root, head, &lines);
            head = l + 2;
            lines.size = 0;
        } else if (head) {
            rp_buf_puts(&lines, l[1] ? l + 2 : "");
            rp_buf_add(&lines, strstr(head, " nul") ? "" : "\n", 1);
        }
    }
    if (head)
        make_entry(root, head, &lines);
    return root;
}
