/* Readers of vocab.json and merges.txt, as GPT-2 was published, and of tokenizer.json of the tokenizers package. */
#include "base/json.h"
#include "base/object.h"
#include "base/text.h"
#include "data/text/bpe_table.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define RP_OBJECT_LIST "data/text/tokenizer.def"
#include "base/object_structs.inc.h"
#define RP_OBJECT_LIST "data/text/tokenizer.def"
#include "base/object_tables.inc.h"

#define FILE_MAX ((size_t)64 << 20)

/* Vocabularies write bytes as characters: printable Latin-1 as itself, the others, in order, as U+0100 and on. */
static int is_printed(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* The text of one byte, at most two bytes of UTF-8. */
static void byte_text(char out[3], unsigned byte)
{
    unsigned c = byte;
    if (!is_printed(byte)) {
        c = 256;
        for (unsigned k = 0; k < byte; k++)
            c += !is_printed(k);
    }
    out[0] = (char)(c < 128 ? c : 0xc0 | c >> 6);
    out[1] = (char)(c < 128 ? 0 : 0x80 | (c & 63));
    out[2] = 0;
}

static const char *excerpt_of(const char *text)
{
    static _Thread_local char out[2][72];
    static _Thread_local int turn;
    return rp_excerpt(out[turn ^= 1], text);
}

/* ---- the vocabulary ---- */

struct loader {
    struct rp_bpe *b;
    const char *file;
    json_t *vocab; /* {"token": id} */
};

static int id_of(const struct loader *l, const char *token, uint32_t *id)
{
    const json_t *j = json_object_get(l->vocab, token);
    *id = (uint32_t)json_integer_value(j);
    return j ? 0 : -1;
}

static int mark_id(unsigned char *used, size_t n, const char *file, const char *token, const json_t *j,
                   struct rp_err *err)
{
    json_int_t id = json_is_integer(j) ? json_integer_value(j) : -1;
    if (id < 0)
        return rp_fail(err, RP_MALFORMED, "'%s': token '%s' has no number from 0 as its id", file, excerpt_of(token));
    if ((size_t)id >= n)
        return rp_fail(err, RP_MALFORMED,
                       "'%s': token '%s' has the id %lld, but there are %zu tokens: ids must be 0..%zu without holes",
                       file, excerpt_of(token), (long long)id, n, n - 1);
    if (used[id]++)
        return rp_fail(err, RP_MALFORMED, "'%s': token '%s' has the id %lld of another token", file, excerpt_of(token),
                       (long long)id);
    return 0;
}

/* n tokens with n different ids below n: no holes. */
static int check_ids(struct loader *l, struct rp_err *err)
{
    size_t n = json_object_size(l->vocab);
    RP_FREE unsigned char *used = rp_alloc(n + 1);
    const char *token;
    json_t *j;
    json_object_foreach(l->vocab, token, j)
        if (mark_id(used, n, l->file, token, j, err) < 0)
            return -1;
    return 0;
}

static int check_tokens(struct loader *l, struct rp_err *err)
{
    char text[3];
    l->b->vocabulary = (int64_t)json_object_size(l->vocab);
    for (unsigned byte = 0; byte < 256; byte++) {
        byte_text(text, byte);
        if (id_of(l, text, &l->b->byte[byte]) < 0)
            return rp_fail(err, RP_MALFORMED,
                           "'%s' has no token '%s' for byte 0x%02x: it is not a byte-level vocabulary such as GPT-2's",
                           l->file, excerpt_of(text), byte);
    }
    if (id_of(l, RP_BPE_EOD, &l->b->eod) < 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has no token '" RP_BPE_EOD "', which separates documents; add it with the id %lld",
                       l->file, (long long)l->b->vocabulary);
    return check_ids(l, err);
}

/* ---- merges ---- */

static void make_places(struct rp_bpe *b, size_t merges)
{
    b->merge_places = 1024;
    while (b->merge_places < 2 * merges)
        b->merge_places *= 2;
    b->merge = rp_alloc(b->merge_places * sizeof *b->merge);
    for (size_t i = 0; i < b->merge_places; i++)
        b->merge[i].rank = UINT32_MAX;
}

/* where: "'merges.txt', line 17" */
static int add_merge(struct loader *l, const char *where, const char *left, const char *right, uint32_t rank,
                     struct rp_err *err)
{
    RP_FREE char *both = rp_asprintf("%s%s", left, right);
    const char *const token[3] = {left, right, both};
    uint32_t id[3];
    for (int k = 0; k < 3; k++)
        if (id_of(l, token[k], &id[k]) < 0)
            return rp_fail(err, RP_MALFORMED,
                           "%s: the vocabulary has no token '%s'; vocabulary and merges do not belong together", where,
                           excerpt_of(token[k]));
    struct rp_bpe_merge *m = rp_bpe_find(l->b, id[0], id[1]);
    if (m->rank != UINT32_MAX)
        return rp_fail(err, RP_MALFORMED, "%s: '%s %s' is merge %lu already", where, excerpt_of(left),
                       excerpt_of(right), (unsigned long)m->rank + 1);
    *m = (struct rp_bpe_merge){id[0], id[1], rank, id[2]};
    return 0;
}

/* "left right", cut in place; NULL: not two words. */
static char *cut_pair(char *line)
{
    char *space = strchr(line, ' ');
    if (!space || space == line || !space[1] || strchr(space + 1, ' '))
        return NULL;
    *space = 0;
    return space + 1;
}

static int read_merges(struct loader *l, const char *path, struct rp_err *err)
{
    RP_BUF file = {0};
    size_t lines = 1;
    if (rp_read_file(&file, path, FILE_MAX, err) < 0)
        return -1;
    if (memchr(rp_buf_text(&file), 0, file.size))
        return rp_fail(err, RP_MALFORMED, "'%s' is not a text: it has a byte 0", path);
    for (size_t i = 0; i < file.size; i++)
        lines += file.data[i] == '\n';
    make_places(l->b, lines);
    uint32_t rank = 0, line = 0;
    for (char *p = file.data, *next; p && *p; p = next) {
        next = strchr(p, '\n');
        if (next)
            *next++ = 0;
        line++;
        if (line == 1 && strncmp(p, "#version", 8) == 0)
            continue;
        RP_FREE char *where = rp_asprintf("'%s', line %lu", path, (unsigned long)line);
        const char *right = cut_pair(p);
        if (!right)
            return rp_fail(err, RP_MALFORMED, "%s: '%s' is not two tokens separated by a blank", where, excerpt_of(p));
        if (add_merge(l, where, p, right, rank++, err) < 0)
            return -1;
    }
    return 0;
}

/* Merges of tokenizer.json: ["a b", ...] or [["a", "b"], ...]. */
static int read_merge_list(struct loader *l, const json_t *merges, struct rp_err *err)
{
    size_t i;
    json_t *j;
    make_places(l->b, json_array_size(merges));
    json_array_foreach(merges, i, j) {
        RP_FREE char *where = rp_asprintf("'%s', merge %zu (from 0)", l->file, i), *text = NULL;
        const char *left = json_string_value(json_array_get(j, 0)), *right = json_string_value(json_array_get(j, 1));
        if (json_is_string(j)) {
            left = text = rp_strdup(json_string_value(j));
            right = cut_pair(text);
        }
        if (!left || !right)
            return rp_fail(err, RP_MALFORMED, "%s is not two tokens", where);
        if (add_merge(l, where, left, right, (uint32_t)i, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- files ---- */

static json_t *read_json(const char *path, struct rp_err *err)
{
    RP_BUF file = {0};
    if (rp_read_file(&file, path, FILE_MAX, err) < 0)
        return NULL;
    json_t *j = rp_json_parse(rp_buf_text(&file), file.size, path, err);
    if (j && !json_is_object(j)) {
        rp_fail(err, RP_MALFORMED, "'%s': expected a JSON object", path);
        json_decref(j);
        return NULL;
    }
    return j;
}

struct rp_bpe *rp_bpe_load(const char *vocab, const char *merges, struct rp_err *err)
{
    RP_JSON *j = read_json(vocab, err);
    if (!j)
        return NULL;
    struct loader l = {.b = rp_alloc(sizeof *l.b), .file = vocab, .vocab = j};
    if (check_tokens(&l, err) < 0 || read_merges(&l, merges, err) < 0) {
        rp_bpe_free(l.b);
        return NULL;
    }
    return l.b;
}

/* What would make other ids than bpe.c makes. */
static int check_kind(const char *path, const struct rp_tokenizer *t, struct rp_err *err)
{
    const struct rp_tokenizer_model *model = &t->model;
    const char *type = rp_text_or_empty(model->type);
    if (*type && strcmp(type, "BPE") != 0)
        return rp_fail(err, RP_MALFORMED, "'%s': model.type is '%s', expected BPE", path, excerpt_of(type));
    if (!json_is_object(model->vocab) || !json_is_array(model->merges))
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has no model.vocab or no model.merges: it is not a tokenizer.json of a byte pair encoding",
                       path);
    if (!rp_same_text(t->pre_tokenizer.type, "ByteLevel") || t->pre_tokenizer.add_prefix_space == 1 ||
        t->pre_tokenizer.use_regex == 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s': pre_tokenizer is not ByteLevel with GPT-2's expression and without add_prefix_space; "
                       "tokenise the text with its own program, and train on data.format tokens",
                       path);
    if (t->normalizer)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has a normalizer, GPT-2's has none; tokenise the text with its own program, and train on "
                       "data.format tokens",
                       path);
    if (*rp_text_or_empty(model->continuing_subword_prefix) || *rp_text_or_empty(model->end_of_word_suffix) ||
        model->ignore_merges || model->dropout > 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s': model has a prefix, a suffix, dropout or ignore_merges, GPT-2's has none of them", path);
    return 0;
}

/* Tokens that are not in model.vocab join it. Those that are not special would be found in texts. */
static int add_tokens(struct loader *l, const struct rp_tokenizer *t, struct rp_err *err)
{
    for (int64_t i = 0; i < t->added_tokens_n; i++) {
        const struct rp_tokenizer_token *one = &t->added_tokens[i];
        const char *content = one->content;
        if (!content || one->id == RP_NO_INTEGER)
            return rp_fail(err, RP_MALFORMED, "'%s': added_tokens, entry %lld (from 0) has no content or no id",
                           l->file, (long long)i);
        const json_t *known = json_object_get(l->vocab, content);
        if (!one->special)
            return rp_fail(err, RP_MALFORMED,
                           "'%s': added token '%s' is not special, so texts would be searched for it, which is not "
                           "supported",
                           l->file, excerpt_of(content));
        if (known && !(json_is_integer(known) && json_integer_value(known) == one->id))
            return rp_fail(err, RP_MALFORMED, "'%s': added token '%s' has the id %lld, in model.vocab it has another",
                           l->file, excerpt_of(content), (long long)one->id);
        json_object_set_new(l->vocab, content, json_integer((json_int_t)one->id));
    }
    return 0;
}

struct rp_bpe *rp_bpe_load_tokenizer(const char *path, struct rp_err *err)
{
    RP_JSON *j = read_json(path, err);
    if (!j)
        return NULL;
    RP_READ(tokenizer, t, j);
    if (check_kind(path, &t, err) < 0)
        return NULL;
    struct loader l = {.b = rp_alloc(sizeof *l.b), .file = path, .vocab = t.model.vocab};
    if (add_tokens(&l, &t, err) < 0 || check_tokens(&l, err) < 0 || read_merge_list(&l, t.model.merges, err) < 0) {
        rp_bpe_free(l.b);
        return NULL;
    }
    return l.b;
}
