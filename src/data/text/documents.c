/* Texts as documents of tokens. */
#include "base/interrupt.h"
#include "base/json.h"
#include "data/text/bpe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)4 << 30)

static int has_lines_of_json(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".jsonl") == 0 || strcmp(dot, ".json") == 0);
}

static int add_line(struct rp_bpe *b, const char *line, size_t n, struct rp_token_docs *out, struct rp_err *err)
{
    RP_JSON *j = rp_json_parse(line, n, "the object", err);
    const json_t *text = json_object_get(j, "text");
    if (!j)
        return -1;
    if (!json_is_string(text))
        return rp_fail(err, RP_MALFORMED, "expected an object with a string \"text\"");
    if (rp_bpe_encode(b, json_string_value(text), json_string_length(text), out, err) < 0)
        return rp_wrap(err, "\"text\"");
    rp_token_docs_close(out);
    return 0;
}

static int add_lines(struct rp_bpe *b, const char *path, FILE *f, struct rp_token_docs *out, struct rp_err *err)
{
    RP_FREE char *line = NULL;
    size_t room = 0;
    ssize_t n;
    for (long number = 1; (n = getline(&line, &room, f)) >= 0; number++) {
        if (add_line(b, line, (size_t)n, out, err) < 0)
            return rp_wrap(err, "'%s', line %ld", path, number);
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted while reading '%s'", path);
    }
    return ferror(f) ? rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno)) : 0;
}

int rp_text_documents(struct rp_bpe *b, const char *path, struct rp_token_docs *out, struct rp_err *err)
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
    int failed = add_lines(b, path, f, out, err);
    fclose(f);
    return failed;
}
