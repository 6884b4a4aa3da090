/* Arrays of numpy, NAME.npy, as files of tokens.
 *
 *     "\x93NUMPY" | u8 major | u8 minor | u16 (major 1) or u32 length of the header | header | elements
 *     header: a dictionary in Python's notation, blanks and a line end: {'descr': '<u2', 'fortran_order': False,
 *     'shape': (4000,), }
 *
 * Read are arrays of one dimension with elements that a token can be: np.save(path, np.array(ids, dtype=np.uint16)). */
#include "data/token_files.h"

#include "base/buf.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NPY_MAGIC "\x93NUMPY"
#define STRUCTURE "a structure"
#define HEADER_MAX 10000 /* numpy reads no longer ones */

static const struct {
    const char *descr;
    enum rp_token_type type;
} types[] = {{"<u2", RP_TOKEN_U16}, {"<u4", RP_TOKEN_U32}, {"<i4", RP_TOKEN_I32}, {"<i8", RP_TOKEN_I64}};

struct npy {
    const char *name;
    char descr[24];
    int fortran, dims, known; /* known: which members were there, a bit each */
    int64_t elements;
};

int rp_token_is_npy(const void *head, size_t n)
{
    return n >= 6 && memcmp(head, NPY_MAGIC, 6) == 0;
}

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* 'word' in either kind of quotes -> out; NULL: it is not there, or longer. */
static const char *read_word(const char *p, char *out, size_t size)
{
    const char quote = *p, *end = quote == '\'' || quote == '"' ? strchr(p + 1, quote) : NULL;
    if (!end || (size_t)(end - p) > size)
        return NULL;
    memcpy(out, p + 1, (size_t)(end - p - 1));
    out[end - p - 1] = 0;
    return end + 1;
}

/* (), (4000,) or (10, 1024); Python 2 wrote 4000L. */
static const char *read_shape(struct npy *a, const char *p)
{
    if (*p++ != '(')
        return NULL;
    a->elements = 1;
    for (p = skip_blanks(p); *p != ')'; a->dims++) {
        if (*p < '0' || *p > '9')
            return NULL;
        char *end;
        const long long n = strtoll(p, &end, 10);
        if (__builtin_mul_overflow(a->elements, (int64_t)n, &a->elements))
            return NULL;
        p = skip_blanks(end + (*end == 'L'));
        if (*p == ',')
            p = skip_blanks(p + 1);
        else if (*p != ')')
            return NULL;
    }
    return p + 1;
}

static const char *read_bool(int *out, const char *p)
{
    *out = strncmp(p, "True", 4) == 0;
    return *out ? p + 4 : strncmp(p, "False", 5) == 0 ? p + 5 : NULL;
}

/* One member; NULL: not one that numpy writes. */
static const char *read_member(struct npy *a, const char *p)
{
    char key[24];
    p = read_word(p, key, sizeof key);
    if (!p || *(p = skip_blanks(p)) != ':')
        return NULL;
    p = skip_blanks(p + 1);
    if (strcmp(key, "descr") == 0) {
        a->known |= 1;
        if (*p != '[')
            return read_word(p, a->descr, sizeof a->descr);
        snprintf(a->descr, sizeof a->descr, STRUCTURE);
        return "}"; /* named fields are refused: nothing after them matters */
    }
    if (strcmp(key, "fortran_order") == 0) {
        a->known |= 2;
        return read_bool(&a->fortran, p);
    }
    if (strcmp(key, "shape") != 0)
        return NULL;
    a->known |= 4;
    return read_shape(a, p);
}

static int read_dictionary(struct npy *a, const char *text, struct rp_err *err)
{
    const char *p = skip_blanks(text);
    if (*p == '{')
        for (p = skip_blanks(p + 1); p && *p != '}';) {
            p = read_member(a, p);
            p = p ? skip_blanks(p) : NULL;
            if (p && *p == ',')
                p = skip_blanks(p + 1);
            else if (p && *p != '}')
                p = NULL;
        }
    if (p && *p == '}' && (a->known == 7 || strcmp(a->descr, STRUCTURE) == 0))
        return 0;
    char shown[72];
    return rp_fail(
        err, RP_MALFORMED,
        "'%s': the header of the .npy file is '%s', expected descr, fortran_order and shape as np.save writes them",
        a->name, rp_excerpt(shown, text));
}

static int read_header(struct rp_files *files, int i, struct npy *a, uint64_t *offset, struct rp_err *err)
{
    unsigned char head[12] = {0};
    char text[HEADER_MAX + 1] = "";
    const struct rp_file *f = &files->file[i];
    const size_t n = f->size < sizeof head ? (size_t)f->size : sizeof head;
    if (rp_files_read(files, i, 0, head, n, err) < 0)
        return -1;
    if (head[6] < 1 || head[6] > 3)
        return rp_fail(err, RP_MALFORMED, "'%s' is a .npy file of version %d, expected 1, 2 or 3", f->name, head[6]);
    const int words = head[6] == 1 ? 2 : 4;
    uint64_t length = 0;
    for (int k = words; k-- > 0;)
        length = length << 8 | head[8 + k];
    *offset = 8 + (uint64_t)words + length;
    if (length > HEADER_MAX || *offset > f->size)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s': the header of the .npy file has %llu bytes, expected at most %d and less than the file: it is "
            "truncated",
            f->name, (unsigned long long)length, HEADER_MAX);
    if (rp_files_read(files, i, *offset - length, text, (size_t)length, err) < 0)
        return -1;
    return read_dictionary(a, text, err);
}

int rp_token_npy(struct rp_files *files, int i, struct rp_token_range *out, struct rp_err *err)
{
    const struct rp_file *f = &files->file[i];
    struct npy a = {.name = f->name};
    size_t t = 0;
    uint64_t offset;
    if (read_header(files, i, &a, &offset, err) < 0)
        return -1;
    while (t < sizeof types / sizeof *types && strcmp(types[t].descr, a.descr) != 0)
        t++;
    if (t == sizeof types / sizeof *types)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' has elements of type %s, expected uint16, uint32, int32 or int64, little endian: "
                       "np.save(path, tokens.astype(np.uint16))",
                       f->name, a.descr);
    if (a.dims != 1 || a.fortran)
        return rp_fail(err, RP_MALFORMED, "'%s' has %d dimension%s%s, expected one: np.save(path, tokens.reshape(-1))",
                       f->name, a.dims, rp_s(a.dims), a.fortran ? " in Fortran's order" : "");
    const uint64_t width = rp_token_bytes(types[t].type), have = f->size - offset;
    if (have / width != (uint64_t)a.elements || have % width)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' announces %lld elements of %llu bytes, but has %llu bytes of them: it is truncated, or damaged",
            f->name, (long long)a.elements, (unsigned long long)width, (unsigned long long)have);
    *out = (struct rp_token_range){types[t].type, offset, a.elements};
    return 0;
}
