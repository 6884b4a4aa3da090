/* State dicts of torch.save: a zip archive, and a pickle of which nothing is executed, as the header of a safetensors
 * file. */
#include "train/torch_file.h"

#include "base/buf.h"
#include "base/little_endian.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PICKLE_MAX ((uint64_t)4 << 20)
#define LISTS_MAX 500000 /* lists and dictionaries of a pickle: a tensor has about six */
#define DIRECTORY_MAX ((uint64_t)64 << 20)

bool rp_is_torch_file(const unsigned char word[4])
{
    return memcmp(word, "PK\3\4", 4) == 0;
}

/* -- the archive -- */

struct torch_zip {
    int fd;
    uint64_t size;
    const char *path;
    json_t *member; /* NAME: [offset of its local header, bytes] */
    struct rp_err *err;
};

static int read_at(const struct torch_zip *z, uint64_t at, void *out, uint64_t n)
{
    if (at > z->size || n > z->size - at || rp_pread_all(z->fd, out, n, at) != (ssize_t)n)
        return rp_fail(z->err, RP_MALFORMED, "'%s' is not a whole zip archive: is it cut short?", z->path);
    return 0;
}

/* Where the list of members is: in the last 22 bytes, or of large files in a record that the 20 bytes before name. */
static int find_directory(const struct torch_zip *z, uint64_t *at, uint64_t *bytes)
{
    unsigned char end[22], locator[20], large[56];
    if (z->size < sizeof end || read_at(z, z->size - sizeof end, end, sizeof end) < 0)
        return -1;
    if (memcmp(end, "PK\5\6", 4) != 0)
        return rp_fail(z->err, RP_MALFORMED, "'%s' does not end as a zip archive does: is it cut short?", z->path);
    *bytes = rp_get_le(end + 12, 4);
    *at = rp_get_le(end + 16, 4);
    if (*bytes != UINT32_MAX && *at != UINT32_MAX)
        return 0;
    if (z->size < sizeof end + sizeof locator ||
        read_at(z, z->size - sizeof end - sizeof locator, locator, sizeof locator) < 0 ||
        memcmp(locator, "PK\6\7", 4) != 0 || read_at(z, rp_get_le(locator + 8, 8), large, sizeof large) < 0 ||
        memcmp(large, "PK\6\6", 4) != 0)
        return rp_fail(z->err, RP_MALFORMED, "'%s' is a damaged zip archive", z->path);
    *bytes = rp_get_le(large + 40, 8);
    *at = rp_get_le(large + 48, 8);
    return 0;
}

/* The 64-bit sizes of a member whose 32-bit ones are full: packed, unpacked and offset change places with them. */
static void take_large(const unsigned char *extra, size_t left, uint64_t *unpacked, uint64_t *packed, uint64_t *at)
{
    uint64_t *const fields[] = {unpacked, packed, at};
    while (left >= 4) {
        size_t n = (size_t)rp_get_le(extra + 2, 2);
        const unsigned char *p = extra + 4;
        if (n > left - 4)
            return;
        if (rp_get_le(extra, 2) == 1)
            for (size_t i = 0; i < 3; i++)
                if (*fields[i] == UINT32_MAX && p + 8 <= extra + 4 + n) {
                    *fields[i] = rp_get_le(p, 8);
                    p += 8;
                }
        extra += 4 + n;
        left -= 4 + n;
    }
}

static int list_members(struct torch_zip *z)
{
    uint64_t at = 0, bytes = 0;
    if (find_directory(z, &at, &bytes) < 0)
        return -1;
    if (bytes > DIRECTORY_MAX)
        return rp_fail(z->err, RP_MALFORMED, "'%s': the list of its members has more than 64 MiB", z->path);
    RP_FREE unsigned char *list = rp_alloc(bytes + 1);
    if (read_at(z, at, list, bytes) < 0)
        return -1;
    z->member = json_object();
    for (const unsigned char *p = list, *end = list + bytes; p < end;) {
        size_t left = (size_t)(end - p);
        size_t name = left < 46 ? 0 : (size_t)rp_get_le(p + 28, 2);
        size_t extra = left < 46 ? 0 : (size_t)rp_get_le(p + 30, 2);
        if (left < 46 || memcmp(p, "PK\1\2", 4) != 0 || left - 46 < name + extra)
            return rp_fail(z->err, RP_MALFORMED, "'%s': the list of its members is damaged", z->path);
        uint64_t packed = rp_get_le(p + 20, 4), unpacked = rp_get_le(p + 24, 4), local = rp_get_le(p + 42, 4);
        take_large(p + 46 + name, extra, &unpacked, &packed, &local);
        if (rp_get_le(p + 10, 2) != 0 || packed != unpacked || p[8] & 1)
            return rp_fail(z->err, RP_MALFORMED, "'%s' has a packed member: torch.save packs none", z->path);
        RP_FREE char *text = rp_asprintf("%.*s", (int)name, (const char *)p + 46);
        json_object_set_new(z->member, text, json_pack("[I, I]", (json_int_t)local, (json_int_t)unpacked));
        size_t comment = (size_t)rp_get_le(p + 32, 2);
        p += comment > left - 46 - name - extra ? left : 46 + name + extra + comment;
    }
    return 0;
}

/* The bytes of a member; -1 and no message: there is none of that name. */
static int find_member(const struct torch_zip *z, const char *name, uint64_t *at, uint64_t *bytes)
{
    unsigned char local[30];
    json_int_t header, n;
    const json_t *m = json_object_get(z->member, name);
    if (!m || json_unpack((json_t *)m, "[I, I]", &header, &n) < 0)
        return -1;
    if (read_at(z, (uint64_t)header, local, sizeof local) < 0)
        return -1;
    *at = (uint64_t)header + sizeof local + rp_get_le(local + 26, 2) + rp_get_le(local + 28, 2);
    *bytes = (uint64_t)n;
    if (memcmp(local, "PK\3\4", 4) != 0 || *at > z->size || *bytes > z->size - *at)
        return rp_fail(z->err, RP_MALFORMED, "'%s': member '%s' is not inside the file", z->path, name);
    return 0;
}

/* -- the pickle -- */

/* Types of storages, by the names of their classes, and those of safetensors. */
static const struct {
    const char *class, *dtype;
    int bytes;
} storages[] = {{"torch FloatStorage", "F32", 4},
                {"torch HalfStorage", "F16", 2},
                {"torch BFloat16Storage", "BF16", 2},
                {"torch DoubleStorage", "F64", 8},
                {"torch LongStorage", "I64", 8},
                {"torch IntStorage", "I32", 4},
                {"torch ShortStorage", "I16", 2},
                {"torch CharStorage", "I8", 1},
                {"torch ByteStorage", "U8", 1},
                {"torch BoolStorage", "BOOL", 1}};

/* Dictionaries, lists, texts and numbers are those of JSON. A class or function is {"global": "MODULE NAME"}, a tensor
 * what the header of a safetensors file has of it, anything else null. Nothing here is trusted: whatever a file
 * makes of it is checked as the header of a file. Lists may be nested as deep as the file is long, or hold themselves,
 * so all are kept until the end and emptied one by one: no function calls itself. */
struct pickle {
    const struct torch_zip *zip;
    const char *folder; /* "NAME/" */
    const unsigned char *p, *begin, *end;
    json_t **stack, **memo, **list;
    size_t n, memos, *mark, marks, lists;
    uint64_t memo_next; /* of protocol 4, whose memos are numbered in turn */
};

static int damaged(const struct pickle *k, const char *what)
{
    return rp_fail(k->zip->err, RP_MALFORMED, "'%s': its pickle %s at byte %td", k->zip->path, what, k->p - k->begin);
}

static void push(struct pickle *k, json_t *v)
{
    if ((k->n & (k->n + 1)) == 0) /* 0, 1, 3, 7, ... */
        k->stack = rp_realloc(k->stack, (2 * k->n + 2) * sizeof *k->stack);
    k->stack[k->n++] = v ? v : json_null();
}

/* A new list or dictionary. */
static int push_new(struct pickle *k, json_t *v)
{
    if (k->lists == LISTS_MAX) {
        json_decref(v);
        return damaged(k, "has too many lists");
    }
    if ((k->lists & (k->lists + 1)) == 0)
        k->list = rp_realloc(k->list, (2 * k->lists + 2) * sizeof *k->list);
    k->list[k->lists++] = json_incref(v);
    push(k, v);
    return 0;
}

/* NULL: the stack has no value above the last mark. */
static json_t *pop(struct pickle *k)
{
    return k->n > (k->marks ? k->mark[k->marks - 1] : 0) ? k->stack[--k->n] : NULL;
}

static json_t *top(const struct pickle *k)
{
    return k->n ? k->stack[k->n - 1] : NULL;
}

static void push_mark(struct pickle *k)
{
    if ((k->marks & (k->marks + 1)) == 0)
        k->mark = rp_realloc(k->mark, (2 * k->marks + 2) * sizeof *k->mark);
    k->mark[k->marks++] = k->n;
}

/* The values above the last mark, or the last `some`, as one list. */
static json_t *pop_list(struct pickle *k, size_t some, bool marked)
{
    size_t floor = k->marks ? k->mark[k->marks - 1] : 0;
    if (marked ? !k->marks : k->n - floor < some)
        return NULL;
    json_t *list = json_array();
    size_t first = marked ? floor : k->n - some;
    for (size_t i = first; i < k->n; i++)
        json_array_append_new(list, k->stack[i]);
    k->n = first;
    k->marks -= marked;
    return list;
}

static const unsigned char *take(struct pickle *k, uint64_t n)
{
    const unsigned char *at = k->p;
    if (n > (uint64_t)(k->end - k->p))
        return NULL;
    k->p += n;
    return at;
}

static int push_text(struct pickle *k, int length_bytes)
{
    const unsigned char *length = take(k, (uint64_t)length_bytes);
    uint64_t n = length ? rp_get_le(length, length_bytes) : 0;
    const unsigned char *text = length ? take(k, n) : NULL;
    if (!text)
        return damaged(k, "ends in a text");
    push(k, json_stringn((const char *)text, n)); /* null: not UTF-8 */
    return 0;
}

static int push_integer(struct pickle *k, int bytes, bool has_sign)
{
    const unsigned char *at = take(k, (uint64_t)bytes);
    if (!at)
        return damaged(k, "ends in a number");
    uint64_t v = bytes <= 8 ? rp_get_le(at, bytes) : 0;
    if (has_sign && bytes && bytes < 8 && v >> (8 * bytes - 1))
        v |= UINT64_MAX << (8 * bytes);
    push(k, bytes <= 8 ? json_integer((json_int_t)v) : NULL);
    return 0;
}

static int put_memo(struct pickle *k, uint64_t at)
{
    if (!k->n || at > (uint64_t)(k->end - k->begin)) /* each takes an instruction */
        return damaged(k, "keeps nothing");
    if (at >= k->memos) {
        k->memo = rp_realloc(k->memo, (at * 2 + 1) * sizeof *k->memo);
        memset(k->memo + k->memos, 0, (at * 2 + 1 - k->memos) * sizeof *k->memo);
        k->memos = at * 2 + 1;
    }
    json_decref(k->memo[at]);
    k->memo[at] = json_incref(top(k));
    return 0;
}

static int get_memo(struct pickle *k, uint64_t at)
{
    if (at >= k->memos || !k->memo[at])
        return damaged(k, "uses what it has not kept");
    push(k, json_incref(k->memo[at]));
    return 0;
}

static int push_global(struct pickle *k)
{
    const unsigned char *module = k->p, *stop = memchr(module, '\n', (size_t)(k->end - module));
    const unsigned char *name = stop ? stop + 1 : k->end, *last = memchr(name, '\n', (size_t)(k->end - name));
    if (!stop || !last)
        return damaged(k, "ends in a name");
    RP_FREE char *text = rp_asprintf("%.*s %.*s", (int)(stop - module), module, (int)(last - name), name);
    k->p = last + 1;
    push(k, json_pack("{s:s}", "global", text));
    return 0;
}

/* ("storage", CLASS, KEY, PLACE, ELEMENTS) */
static int push_storage(struct pickle *k)
{
    json_t *id = pop(k);
    const char *class = json_string_value(json_object_get(json_array_get(id, 1), "global"));
    const char *key = json_string_value(json_array_get(id, 2));
    push(k, class && key ? json_pack("{s:s, s:s}", "storage", class, "key", key) : NULL);
    json_decref(id);
    return id ? 0 : damaged(k, "names no storage");
}

/* Whether elements follow each other, the last index first; the number of them. */
static bool is_dense(const json_t *shape, const json_t *stride, uint64_t *elements)
{
    uint64_t n = 1;
    bool dense = json_is_array(shape) && json_array_size(shape) == json_array_size(stride);
    for (size_t i = json_array_size(shape); dense && i-- > 0;) {
        const json_int_t size = json_integer_value(json_array_get(shape, i));
        dense = size >= 0 && (size == 1 || json_integer_value(json_array_get(stride, i)) == (json_int_t)n) &&
                !__builtin_mul_overflow(n, (uint64_t)size, &n);
        if (size == 0) {
            n = 0;
            break;
        }
    }
    *elements = n;
    return dense;
}

/* (storage, offset, shape, stride, ...): {"dtype", "shape", "data_offsets"}; {"tensor": REASON}: it cannot be read. */
static json_t *tensor_of(const struct pickle *k, const json_t *args)
{
    const json_t *storage = json_array_get(args, 0), *shape = json_array_get(args, 2);
    const char *class = json_string_value(json_object_get(storage, "storage"));
    const char *key = json_string_value(json_object_get(storage, "key"));
    const json_int_t first = json_integer_value(json_array_get(args, 1));
    uint64_t at = 0, bytes = 0, n = 0;
    size_t i = 0;
    while (class && i < sizeof storages / sizeof *storages && strcmp(class, storages[i].class) != 0)
        i++;
    if (!class || i == sizeof storages / sizeof *storages)
        return json_pack("{s:s}", "tensor", "its type is none of a safetensors file");
    if (!is_dense(shape, json_array_get(args, 3), &n))
        return json_pack("{s:s}", "tensor", "it is not contiguous: save tensor.contiguous()");
    RP_FREE char *member = rp_asprintf("%sdata/%s", k->folder, key);
    if (find_member(k->zip, member, &at, &bytes) < 0)
        return json_pack("{s:s}", "tensor", "the archive lacks its elements");
    const uint64_t size = (uint64_t)storages[i].bytes;
    if (first < 0 || (uint64_t)first > bytes / size || n > bytes / size - (uint64_t)first)
        return json_pack("{s:s}", "tensor", "it is larger than its storage");
    const uint64_t begin = at + (uint64_t)first * size;
    return json_pack("{s:s, s:O, s:[I, I]}", "dtype", storages[i].dtype, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + n * size));
}

static bool is_tensor(const json_t *v)
{
    return json_object_get(v, "data_offsets") || json_object_get(v, "tensor");
}

static int call(struct pickle *k)
{
    json_t *args = pop(k), *function = args ? pop(k) : NULL, *result = NULL;
    const char *name = json_string_value(json_object_get(function, "global"));
    if (name && strcmp(name, "collections OrderedDict") == 0)
        result = json_object();
    else if (name && strcmp(name, "torch._utils _rebuild_tensor_v2") == 0)
        result = tensor_of(k, args);
    else if (name && strcmp(name, "torch._utils _rebuild_parameter") == 0)
        result = json_incref(json_array_get(args, 0));
    const bool is_new = name && json_is_object(result) && !is_tensor(result), had = function != NULL;
    json_decref(args);
    json_decref(function);
    if (!had)
        return damaged(k, "calls nothing");
    if (is_new)
        return push_new(k, result);
    push(k, result);
    return 0;
}

/* Pairs of a name and a value into the dictionary below them; other keys and objects hold no tensors. */
static int set_items(struct pickle *k, json_t *items)
{
    json_t *dict = top(k);
    for (size_t i = 0; items && dict && i + 1 < json_array_size(items); i += 2) {
        const char *name = json_string_value(json_array_get(items, i));
        if (json_is_object(dict) && name)
            json_object_set(dict, name, json_array_get(items, i + 1));
    }
    json_decref(items);
    return items && dict ? 0 : damaged(k, "fills nothing");
}

static int append_items(struct pickle *k, json_t *items)
{
    json_t *list = top(k);
    if (json_is_array(list) && items)
        json_array_extend(list, items);
    json_decref(items);
    return items && list ? 0 : damaged(k, "fills nothing");
}

static int push_list(struct pickle *k, size_t some, bool marked)
{
    json_t *list = pop_list(k, some, marked);
    return list ? push_new(k, list) : damaged(k, "lists what is not there");
}

static int drop(struct pickle *k)
{
    json_t *v = pop(k);
    json_decref(v);
    return v ? 0 : damaged(k, "drops nothing");
}

/* "module\n" and "name\n" as two texts of the stack */
static int push_stack_global(struct pickle *k)
{
    json_t *name = pop(k), *module = name ? pop(k) : NULL;
    RP_FREE char *text = rp_asprintf("%s %s", json_is_string(module) ? json_string_value(module) : "?",
                                     json_is_string(name) ? json_string_value(name) : "?");
    const bool had = module != NULL;
    json_decref(name);
    json_decref(module);
    push(k, json_pack("{s:s}", "global", text));
    return had ? 0 : damaged(k, "names nothing");
}

static int push_long(struct pickle *k)
{
    const unsigned char *n = take(k, 1);
    return n ? push_integer(k, *n, true) : damaged(k, "ends in a number");
}

static int with_index(struct pickle *k, int bytes, int (*use)(struct pickle *k, uint64_t at))
{
    const unsigned char *at = take(k, (uint64_t)bytes);
    return at ? use(k, rp_get_le(at, bytes)) : damaged(k, "ends in an index");
}

/* 1: the end */
static int step(struct pickle *k)
{
    const unsigned char *op = take(k, 1);
    switch (op ? *op : 0) {
    case 0x80: return take(k, 1) ? 0 : damaged(k, "ends");                       /* PROTO */
    case 0x95: return take(k, 8) ? 0 : damaged(k, "ends");                       /* FRAME */
    case '.': return 1;
    case '(': push_mark(k); return 0;
    case '}': return push_new(k, json_object());
    case ']': case ')': return push_new(k, json_array());
    case 'N': push(k, NULL); return 0;
    case 0x88: case 0x89: push(k, json_boolean(*op == 0x88)); return 0;
    case 'K': return push_integer(k, 1, false);
    case 'M': return push_integer(k, 2, false);
    case 'J': return push_integer(k, 4, true);
    case 0x8a: return push_long(k);
    case 'G': push(k, NULL); return take(k, 8) ? 0 : damaged(k, "ends");         /* a real number */
    case 'X': return push_text(k, 4);
    case 0x8c: return push_text(k, 1);
    case 'q': return with_index(k, 1, put_memo);
    case 'r': return with_index(k, 4, put_memo);
    case 'h': return with_index(k, 1, get_memo);
    case 'j': return with_index(k, 4, get_memo);
    case 0x94: return put_memo(k, k->memo_next++);                               /* MEMOIZE */
    case 'c': return push_global(k);
    case 0x93: return push_stack_global(k);
    case 'Q': return push_storage(k);
    case 't': return push_list(k, 0, true);
    case 0x85: case 0x86: case 0x87: return push_list(k, (size_t)*op - 0x84, false);
    case 'R': case 0x81: return call(k);                                         /* REDUCE, NEWOBJ */
    case 's': return set_items(k, pop_list(k, 2, false));
    case 'u': return set_items(k, pop_list(k, 0, true));
    case 'a': return append_items(k, pop_list(k, 1, false));
    case 'e': return append_items(k, pop_list(k, 0, true));
    case 'b': return drop(k);                                                    /* BUILD: attributes of an object */
    default: k->p -= op != NULL; return damaged(k, "has no instruction of a state dict");
    }
}

static void finish(struct pickle *k)
{
    for (size_t i = 0; i < k->n; i++)
        json_decref(k->stack[i]);
    for (size_t i = 0; i < k->memos; i++)
        json_decref(k->memo[i]);
    for (size_t i = 0; i < k->lists; i++) {
        json_array_clear(k->list[i]); /* one of the two does nothing */
        json_object_clear(k->list[i]);
    }
    for (size_t i = 0; i < k->lists; i++)
        json_decref(k->list[i]);
    free(k->list);
    free(k->stack);
    free(k->memo);
    free(k->mark);
}

/* -- the dictionary -- */

static bool has_tensors(const json_t *dict)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)dict, name, v)
        if (is_tensor(v))
            return true;
    return false;
}

/* A copy without anything else that the file may have put there. */
static json_t *entry_of(const json_t *v)
{
    static const char *const lists[] = {"shape", "data_offsets"};
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    json_t *entry = json_pack("{s:s}", "dtype", dtype ? dtype : "");
    for (size_t k = 0; k < 2; k++) {
        const json_t *from = json_object_get(v, lists[k]);
        json_t *list = json_array();
        for (size_t i = 0; i < json_array_size(from) && i < 16; i++)
            json_array_append_new(list, json_integer(json_integer_value(json_array_get(from, i))));
        json_object_set_new(entry, lists[k], list);
    }
    return entry;
}

static json_t *header_of(const struct pickle *k)
{
    static const char *const inside[] = {"state_dict", "model_state_dict", "model"};
    const json_t *dict = top(k);
    for (size_t i = 0; i < sizeof inside / sizeof *inside && !has_tensors(dict); i++)
        if (has_tensors(json_object_get(top(k), inside[i])))
            dict = json_object_get(top(k), inside[i]);
    if (!has_tensors(dict))
        return rp_fail_null(k->zip->err, RP_MALFORMED, "'%s' holds no dictionary of tensors: save model.state_dict()",
                            k->zip->path);
    json_t *header = json_object(), *v;
    const char *name;
    json_object_foreach((json_t *)dict, name, v) {
        const char *reason = json_string_value(json_object_get(v, "tensor"));
        if (reason) {
            char text[64];
            json_decref(header);
            return rp_fail_null(k->zip->err, RP_MALFORMED, "'%s', tensor '%s': %s", k->zip->path,
                                rp_ascii(text, sizeof text, name), reason);
        }
        if (is_tensor(v))
            json_object_set_new(header, name, entry_of(v));
    }
    return header;
}

static json_t *run_pickle(const struct torch_zip *z, const char *folder, uint64_t at, uint64_t bytes)
{
    if (bytes > PICKLE_MAX)
        return rp_fail_null(z->err, RP_MALFORMED, "'%s': its pickle has more than 4 MiB", z->path);
    RP_FREE unsigned char *code = rp_alloc(bytes + 1);
    if (read_at(z, at, code, bytes) < 0)
        return NULL;
    struct pickle k = {.zip = z, .folder = folder, .p = code, .begin = code, .end = code + bytes};
    int state;
    do
        state = step(&k);
    while (state == 0);
    json_t *header = state < 0 ? NULL : header_of(&k);
    finish(&k);
    return header;
}

/* The member NAME/data.pkl, whatever NAME is. */
static json_t *read_archive(const struct torch_zip *z)
{
    static const char leaf[] = "/data.pkl", order[] = "byteorder";
    const char *name;
    json_t *v;
    uint64_t at = 0, bytes = 0;
    json_object_foreach(z->member, name, v) {
        const char *slash = strchr(name, '/');
        if (!slash || strcmp(slash, leaf) != 0 || find_member(z, name, &at, &bytes) < 0)
            continue;
        char word[8] = "";
        uint64_t word_at = 0, word_bytes = 0;
        RP_FREE char *folder = rp_asprintf("%.*s/", (int)(slash - name), name);
        RP_FREE char *byteorder = rp_asprintf("%s%s", folder, order);
        if (find_member(z, byteorder, &word_at, &word_bytes) == 0 && word_bytes < sizeof word &&
            read_at(z, word_at, word, word_bytes) == 0 && strcmp(word, "big") == 0)
            return rp_fail_null(z->err, RP_MALFORMED, "'%s' has numbers with the highest byte first", z->path);
        return run_pickle(z, folder, at, bytes);
    }
    return rp_fail_null(z->err, RP_MALFORMED, "'%s' is a zip archive, but not of torch.save: it has no data.pkl",
                        z->path);
}

json_t *rp_torch_header(int fd, uint64_t size, const char *path, struct rp_err *err)
{
    struct torch_zip z = {.fd = fd, .size = size, .path = path, .err = err};
    json_t *header = list_members(&z) < 0 ? NULL : read_archive(&z);
    json_decref(z.member);
    return header;
}
