/* Texts as documents of tokens. */
#include "base/interrupt.h"
#include "data/text/bpe.h"
#include "data/text/json_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)4 << 30)

static int has_lines_of_json(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".jsonl") == 0 || strcmp(dot, ".json") == 0);
}

static int add_line(struct rp_bpe *b, const char *line, size_t n, struct rp_buf *text, struct rp_token_docs *out,
                    struct rp_err *err)
{
    text->size = 0;
    if (rp_json_line_text(line, n, text, err) < 0)
        return -1;
    if (rp_bpe_encode(b, text->data ? text->data : "", text->size, out, err) < 0)
        return rp_wrap(err, "\"text\"");
    rp_token_docs_close(out);
    return 0;
}

/* Keeps the place and the reason of the first line that is left out. */
static void skip_line(struct rp_text_skipped *skipped, const char *path, long number, const struct rp_err *why)
{
    if (skipped->lines++)
        return;
    skipped->first = *why;
    rp_wrap(&skipped->first, "'%s', line %ld", path, number);
}

static int add_lines(struct rp_bpe *b, const char *path, FILE *f, struct rp_token_docs *out,
                     struct rp_text_skipped *skipped, struct rp_err *err)
{
    RP_FREE char *line = NULL;
    RP_BUF text = {0};
    size_t room = 0;
    ssize_t n;
    for (long number = 1; (n = getline(&line, &room, f)) >= 0; number++) {
        const size_t ids = out->ids;
        if (add_line(b, line, (size_t)n, &text, out, err) < 0) {
            if (!skipped || err->code != RP_MALFORMED) {
                rp_wrap(err, "'%s', line %ld", path, number);
                return err->code != RP_MALFORMED
                           ? -1
                           : rp_fail(err, RP_MALFORMED,
                                     "%s; correct the line, or give --skip-bad to leave out such lines", err->msg);
            }
            out->ids = ids;
            skip_line(skipped, path, number, err);
        }
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted while reading '%s'", path);
    }
    return ferror(f) ? rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno)) : 0;
}

int rp_text_documents(struct rp_bpe *b, const char *path, struct rp_token_docs *out, struct rp_text_skipped *skipped,
                      struct rp_err *err)
{
    RP_BUF text = {0};
    if (!has_lines_of_json(path)) {
        if (rp_read_file(&text, path, TEXT_MAX, err) < 0)
            return -1;
        if (rp_bpe_encode(b, rp_buf_text(&text), text.size, out, err) < 0)
            return rp_wrap(err, "'%s'", path);
        rp_token_docs_close(out);
        return 0;
    }
    RP_FD fd = rp_open_regular(path, err);
    if (fd < 0)
        return -1;
    FILE *f = fdopen(fd, "r");
    if (!f)
        return rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno));
    rp_fd_take(&fd);
    int failed = add_lines(b, path, f, out, skipped, err);
    fclose(f);
    return failed;
}
