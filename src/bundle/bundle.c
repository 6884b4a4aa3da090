#include "bundle/bundle.h"

#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/pack.h"
#include "sign/countersign.h"
#include "sign/dsse.h"
#include "sign/key.h"
#include "sign/minisign.h"
#include "sign/statement.h"
#include "sign/timestamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum rp_bundle_kind of;
    int required;
    const char *meaning;
} rows[] = {
#define MEMBER(name, of, required, meaning) {name, RP_BUNDLE_##of, required, meaning},
#include "bundle/members.def"
#undef MEMBER
};
#define ROWS ((int)(sizeof rows / sizeof *rows))
#define STATEMENT "statement.dsse.json"
#define SUMS "SHA256SUMS"
#define NUMBER_MAX 10000
#define TAR_MAX (RP_BUNDLE_TOTAL_MAX + RP_BUNDLE_MEMBERS_MAX * 1024ul)
#define SMALL (1ul << 20) /* a member that may be left out is kept up to this size, if there is room */

/* A member's place in the tar: row * NUMBER_MAX + the rank or node number, which replaces the 0 of "rank0" or "node0";
 * -1 for a name that no row allows. */
static int member_place(const char *name)
{
    for (int row = 0; row < ROWS; row++) {
        const char *p = rows[row].name, *q = name;
        int number = 0;
        for (; *p && *p == *q; p++, q++) {
        }
        const char *digit = strstr(rows[row].name, "0.");
        if (digit && p == digit && *q >= '1' && *q <= '9') {
            for (; *q >= '0' && *q <= '9' && number < NUMBER_MAX; q++)
                number = number * 10 + (*q - '0');
            p++;
        }
        if (number < NUMBER_MAX && strcmp(p, q) == 0)
            return row * NUMBER_MAX + number;
    }
    return -1;
}

const char *rp_member_name(char out[RP_MEMBER_NAME], const char *kind, int number, const char *what)
{
    snprintf(out, RP_MEMBER_NAME, "%s%d%s", kind, number, what);
    return out;
}

const char *rp_bundle_meaning(const char *name)
{
    int at = member_place(name);
    return at < 0 ? "" : rows[at / NUMBER_MAX].meaning;
}

void rp_bundle_fini(struct rp_bundle *b)
{
    for (int i = 0; i < b->n; i++) {
        free(b->member[i].name);
        rp_buf_fini(&b->member[i].bytes);
    }
    free(b->member);
    *b = (struct rp_bundle){0};
}

const struct rp_member *rp_bundle_find(const struct rp_bundle *b, const char *name)
{
    for (int i = 0; i < b->n; i++)
        if (strcmp(b->member[i].name, name) == 0)
            return &b->member[i];
    return NULL;
}

/* May it be larger than a document? Records are read line by line, and hwloc's file is not parsed. */
static int may_be_large(const char *name)
{
    return rp_ends_with(name, ".xml") || (strncmp(name, "steps/", 6) == 0 && !rp_ends_with(name, ".telemetry.jsonl"));
}

static size_t most_bytes(const char *name)
{
    return may_be_large(name)              ? RP_BUNDLE_MEMBER_MAX
           : strncmp(name, "log/", 4) == 0 ? RP_BUNDLE_LOG_MAX
                                           : RP_BUNDLE_DOCUMENT_MAX;
}

/* Bundles of earlier versions have other members: then their version is what is wrong with them. */
static int check_version(const struct rp_bundle *b, struct rp_err *err)
{
    struct rp_err ignored;
    const struct rp_member *run = rp_bundle_find(b, "run.json");
    RP_JSON *j =
        run ? rp_json_parse_most(rp_buf_text(&run->bytes), run->bytes.size, RP_BUNDLE_VALUES_MAX, "run.json", &ignored)
            : NULL;
    return j ? rp_statement_version(j, "run.json", err) : 0;
}

/* Inserts a member of that name and size, in the order of the tar; NULL if the bundle cannot have it. */
static struct rp_member *insert_member(struct rp_bundle *b, const char *name, size_t size, struct rp_err *err)
{
    char safe[RP_TAR_NAME_MAX + 1];
    int at = member_place(name), i = b->n;
    size_t most = most_bytes(name);
    rp_ascii(safe, sizeof safe, name);
    if (at < 0 && check_version(b, err) < 0)
        return NULL;
    if (at < 0)
        return rp_fail_null(err, RP_MALFORMED, "'%s' is not a member of a bundle; was it made by a newer version?",
                            safe);
    if (size > most)
        return rp_fail_null(err, RP_MALFORMED, "member '%s' has %zu bytes; at most %zu are accepted", safe, size, most);
    if (b->n == RP_BUNDLE_MEMBERS_MAX)
        return rp_fail_null(err, RP_MALFORMED, "more than %d members", RP_BUNDLE_MEMBERS_MAX);
    if (rp_bundle_find(b, name))
        return rp_fail_null(err, RP_MALFORMED, "member '%s' appears twice", safe);
    if ((b->n & (b->n - 1)) == 0) /* room for the next power of two */
        b->member = rp_realloc(b->member, (size_t)(b->n ? 2 * b->n : 1) * sizeof *b->member);
    for (; i > 0 && member_place(b->member[i - 1].name) > at; i--)
        b->member[i] = b->member[i - 1];
    b->member[i] = (struct rp_member){.name = rp_strdup(name)};
    b->n++;
    return &b->member[i];
}

int rp_bundle_add(struct rp_bundle *b, const char *name, const void *data, size_t size, struct rp_err *err)
{
    struct rp_member *m = insert_member(b, name, size, err);
    if (!m)
        return -1;
    rp_buf_add(&m->bytes, data, size);
    return 0;
}

size_t rp_member_size(const struct rp_member *m)
{
    return m->left_out ? m->size : m->bytes.size;
}

void rp_member_sha256(char out[RP_SHA256_HEX], const struct rp_member *m)
{
    if (m->left_out)
        memcpy(out, m->sha256, RP_SHA256_HEX);
    else
        rp_sha256_hex(out, m->bytes.data, m->bytes.size);
}

enum rp_bundle_kind rp_bundle_kind(const struct rp_bundle *b)
{
    return rp_bundle_find(b, RP_LOG_STDOUT) ? RP_BUNDLE_COMMAND : RP_BUNDLE_RUN;
}

/* Every required member of its kind. One of the other kind is refused: checks would not read it. */
static int check_members(const struct rp_bundle *b, struct rp_err *err)
{
    const enum rp_bundle_kind kind = rp_bundle_kind(b);
    for (int row = 0; row < ROWS; row++)
        if (rows[row].required && (rows[row].of == RP_BUNDLE_ANY || rows[row].of == kind) &&
            !rp_bundle_find(b, rows[row].name))
            return check_version(b, err) < 0 ? -1
                                             : rp_fail(err, RP_MALFORMED, "member '%s' is missing", rows[row].name);
    for (int i = 0; i < b->n; i++) {
        const enum rp_bundle_kind of = rows[member_place(b->member[i].name) / NUMBER_MAX].of;
        if (of != RP_BUNDLE_ANY && of != kind)
            return rp_fail(err, RP_MALFORMED, "member '%s' does not belong to the bundle of a %s", b->member[i].name,
                           kind == RP_BUNDLE_COMMAND ? "command, which has " RP_LOG_STDOUT
                                                     : "run, which has no " RP_LOG_STDOUT);
    }
    return 0;
}

/* ---- writing ---- */

/* Countersignatures and time stamps are added after sealing, so neither the statement nor SHA256SUMS can name them. */
static int is_added_later(const char *name)
{
    return strncmp(name, RP_COUNTERSIGN_FOLDER, strlen(RP_COUNTERSIGN_FOLDER)) == 0 ||
           strncmp(name, RP_TIMESTAMP_FOLDER, strlen(RP_TIMESTAMP_FOLDER)) == 0;
}

void rp_bundle_sums(struct rp_buf *out, const struct rp_bundle *b)
{
    for (int i = 0; i < b->n; i++) {
        const struct rp_member *m = &b->member[i];
        char hex[RP_SHA256_HEX];
        if (strcmp(m->name, STATEMENT) == 0 || strncmp(m->name, SUMS, strlen(SUMS)) == 0 || is_added_later(m->name))
            continue;
        rp_member_sha256(hex, m);
        rp_buf_printf(out, "%s  %s\n", hex, m->name);
    }
}

int rp_bundle_subjects(const struct rp_bundle *b, struct rp_subject *subject)
{
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        const struct rp_member *m = &b->member[i];
        if (strcmp(m->name, STATEMENT) == 0 || is_added_later(m->name))
            continue;
        subject[n].name = m->name;
        rp_member_sha256(subject[n++].sha256, m);
    }
    return n;
}

/* Signatures of SHA256SUMS in the forms of signify and minisign. */
static int add_stock_forms(struct rp_bundle *b, const struct rp_key_pair *key, const struct rp_buf *sums,
                           struct rp_err *err)
{
    RP_BUF signify = {0}, minisign = {0};
    if (rp_signify_sign(&signify, key, sums->data, sums->size, err) < 0 ||
        rp_minisign_sign(&minisign, key, sums->data, sums->size, SUMS, err) < 0)
        return -1;
    if (rp_bundle_add(b, SUMS ".sig", signify.data, signify.size, err) < 0)
        return -1;
    return rp_bundle_add(b, SUMS ".minisig", minisign.data, minisign.size, err);
}

static json_t *parse_member(const struct rp_bundle *b, const char *name, struct rp_err *err)
{
    const struct rp_member *m = rp_bundle_find(b, name);
    return m ? rp_json_parse(m->bytes.data, m->bytes.size, name, err)
             : rp_fail_null(err, RP_BUG, "a bundle without %s cannot be sealed", name);
}

static int add_statement(struct rp_bundle *b, const struct rp_key_pair *key, struct rp_err *err)
{
    RP_FREE struct rp_subject *subject = rp_alloc(RP_BUNDLE_MEMBERS_MAX * sizeof *subject);
    char hex[RP_SHA256_HEX];
    RP_BUF payload = {0}, envelope = {0};
    RP_JSON *facts = parse_member(b, "facts.json", err);
    RP_JSON *run = facts ? parse_member(b, "run.json", err) : NULL;
    if (!run)
        return -1;
    const struct rp_buf *bytes = &rp_bundle_find(b, "run.json")->bytes;
    rp_sha256_hex(hex, bytes->data, bytes->size);
    int n = rp_bundle_subjects(b, subject);
    RP_JSON *statement = rp_statement(subject, n, rp_statement_predicate(facts, run, hex));
    RP_BUG_IF(!statement);
    rp_json_write(&payload, statement);
    if (rp_dsse_seal(&envelope, payload.data, payload.size, key, err) < 0)
        return -1;
    return rp_bundle_add(b, STATEMENT, envelope.data, envelope.size, err);
}

int rp_bundle_pack(const struct rp_bundle *b, struct rp_buf *file, struct rp_err *err)
{
    RP_BUF tar = {0};
    size_t total = 0;
    for (int i = 0; i < b->n; i++) {
        RP_BUG_IF(b->member[i].left_out);
        total += b->member[i].bytes.size;
    }
    if (total > RP_BUNDLE_TOTAL_MAX)
        return rp_fail(err, RP_UNAVAILABLE, "the members have %zu bytes together; a bundle holds %lu at most", total,
                       RP_BUNDLE_TOTAL_MAX);
    for (int i = 0; i < b->n; i++)
        rp_tar_add(&tar, b->member[i].name, b->member[i].bytes.data, b->member[i].bytes.size);
    rp_tar_end(&tar);
    return rp_zst_pack(file, tar.data, tar.size, err);
}

int rp_bundle_seal(struct rp_bundle *b, const struct rp_key_pair *key, struct rp_buf *file, struct rp_err *err)
{
    RP_BUF pem = {0}, sums = {0};
    size_t script_size;
    const char *script = rp_bundle_script(&script_size);
    rp_key_public_pem(key, &pem);
    if (rp_bundle_add(b, "key.pem", pem.data, pem.size, err) < 0 ||
        rp_bundle_add(b, "verify.sh", script, script_size, err) < 0)
        return -1;
    rp_bundle_sums(&sums, b);
    if (rp_bundle_add(b, SUMS, sums.data, sums.size, err) < 0 || add_stock_forms(b, key, &sums, err) < 0 ||
        add_statement(b, key, err) < 0 || check_members(b, err) < 0)
        return -1;
    return rp_bundle_pack(b, file, err);
}

/* ---- reading ---- */

/* How members are read: how much may still be kept; whether any may be left out. */
struct bundle_reader {
    struct rp_unpack *from;
    int lean;
    size_t documents, small, total;
};

/* 1: keep its content, 0: leave it out, -1: too much content. */
static int check_room(struct bundle_reader *r, const char *name, size_t size, struct rp_err *err)
{
    int large = may_be_large(name);
    size_t *room = large ? &r->small : &r->documents;
    if (size > r->total)
        return rp_fail(err, RP_MALFORMED, "the members have more than %lu bytes together", RP_BUNDLE_TOTAL_MAX);
    r->total -= size;
    if (large && r->lean && (size > SMALL || size > *room))
        return 0;
    if (large && !r->lean)
        return 1;
    if (size > *room)
        return rp_fail(err, RP_MALFORMED,
                       "the members other than step records and hwloc's have more than %lu bytes together",
                       RP_BUNDLE_DOCUMENTS_MAX);
    *room -= size;
    return 1;
}

/* Every piece of the current member goes to both. */
static int read_pieces(struct rp_unpack *from, struct rp_sha256 *h,
                       int (*piece)(void *, const char *, size_t, struct rp_err *), void *to, struct rp_err *err)
{
    const char *data;
    size_t n;
    int more;
    while ((more = rp_tar_piece(from, &data, &n, err)) > 0) {
        rp_sha256_update(h, data, n);
        if (piece && piece(to, data, n, err) < 0)
            return -1;
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted");
    }
    return more;
}

static int read_member(struct bundle_reader *r, struct rp_member *m, size_t size, int kept, struct rp_err *err)
{
    const char *data;
    struct rp_sha256 h = {{0}};
    size_t n;
    int more;
    if (kept) {
        while ((more = rp_tar_piece(r->from, &data, &n, err)) > 0)
            rp_buf_add(&m->bytes, data, n);
        return more;
    }
    m->left_out = 1;
    m->size = size;
    rp_sha256_init(&h);
    if (read_pieces(r->from, &h, NULL, NULL, err) < 0)
        return -1;
    rp_sha256_final_hex(&h, m->sha256);
    return 0;
}

static int read_members(struct rp_bundle *b, struct bundle_reader *r, struct rp_err *err)
{
    char name[RP_TAR_NAME_MAX + 1], safe[RP_TAR_NAME_MAX + 1];
    size_t size;
    int more, last = -1;
    while ((more = rp_tar_next(r->from, name, &size, err)) > 0) {
        struct rp_member *m = insert_member(b, name, size, err);
        if (!m)
            return -1;
        if (member_place(name) < last)
            return rp_fail(err, RP_MALFORMED, "member '%s' is not in its place; members have a fixed order",
                           rp_ascii(safe, sizeof safe, name));
        last = member_place(name);
        int kept = check_room(r, name, size, err);
        if (kept < 0 || read_member(r, m, size, kept, err) < 0)
            return -1;
    }
    return more < 0 ? -1 : check_members(b, err);
}

static int read_from(struct rp_bundle *b, struct rp_unpack *from, int lean, struct rp_err *err)
{
    struct bundle_reader r = {from, lean, RP_BUNDLE_DOCUMENTS_MAX, 2 * SMALL, RP_BUNDLE_TOTAL_MAX};
    *b = (struct rp_bundle){0};
    int failed = !from || read_members(b, &r, err) < 0;
    rp_unpack_free(from);
    if (failed)
        rp_bundle_fini(b);
    return failed ? -1 : 0;
}

int rp_bundle_read(struct rp_bundle *b, int fd, struct rp_err *err)
{
    return read_from(b, rp_unpack_file(fd, TAR_MAX, err), 0, err);
}

int rp_bundle_scan(struct rp_bundle *b, int fd, struct rp_err *err)
{
    return read_from(b, rp_unpack_file(fd, TAR_MAX, err), 1, err);
}

int rp_bundle_again(int fd, const struct rp_member *m,
                    int (*piece)(void *to, const char *data, size_t size, struct rp_err *err), void *to,
                    struct rp_err *err)
{
    char name[RP_TAR_NAME_MAX + 1], hex[RP_SHA256_HEX];
    struct rp_sha256 h = {{0}};
    size_t size;
    int more, failed;
    if (!m->left_out)
        return piece(to, rp_buf_text(&m->bytes), m->bytes.size, err);
    struct rp_unpack *from = rp_unpack_file(fd, TAR_MAX, err);
    if (!from)
        return -1;
    rp_sha256_init(&h);
    while ((more = rp_tar_next(from, name, &size, err)) > 0 && strcmp(name, m->name) != 0) {
    }
    failed = more < 0 || (more > 0 && read_pieces(from, &h, piece, to, err) < 0);
    rp_unpack_free(from);
    rp_sha256_final_hex(&h, hex);
    if (!failed && strcmp(hex, m->sha256) != 0)
        failed = rp_fail(err, RP_MISMATCH, "member '%s' changed while it was verified", m->name);
    return failed ? -1 : 0;
}
