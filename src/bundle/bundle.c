#include "bundle/bundle.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/pack.h"
#include "sign/dsse.h"
#include "sign/key.h"
#include "sign/minisign.h"
#include "sign/statement.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int required;
    const char *meaning;
} rows[] = {
#define MEMBER(name, required, meaning) {name, required, meaning},
#define REPORT(id, name, required, meaning) MEMBER(name, required, meaning)
#include "bundle/members.def"
#undef MEMBER
#undef REPORT
};
#define ROWS ((int)(sizeof rows / sizeof *rows))
#define STATEMENT "statement.dsse.json"
#define SUMS "SHA256SUMS"
#define NUMBER_MAX 10000

/* A member's place in the tar: row * NUMBER_MAX + the rank or node number, which stands where the row has "rank0" or "node0";
 * -1 for a name that no row allows. */
static int place(const char *name)
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

const char *rp_bundle_meaning(const char *name)
{
    int at = place(name);
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

/* Members are kept in the order of the tar. */
int rp_bundle_add(struct rp_bundle *b, const char *name, const void *data, size_t size, struct rp_err *err)
{
    char safe[RP_TAR_NAME_MAX + 1];
    int at = place(name), i = b->n;
    rp_safe(safe, sizeof safe, name);
    if (at < 0)
        return rp_fail(err, RP_MALFORMED, "'%s' is no member of a bundle; was it made by a newer version?", safe);
    if (size > RP_BUNDLE_MEMBER_MAX)
        return rp_fail(err, RP_MALFORMED, "member '%s' has %zu bytes; at most %lu are accepted", safe, size, RP_BUNDLE_MEMBER_MAX);
    if (b->n == RP_BUNDLE_MEMBERS_MAX)
        return rp_fail(err, RP_MALFORMED, "more than %d members", RP_BUNDLE_MEMBERS_MAX);
    if (rp_bundle_find(b, name))
        return rp_fail(err, RP_MALFORMED, "member '%s' is there twice", safe);
    b->member = rp_realloc(b->member, (size_t)(b->n + 1) * sizeof *b->member);
    for (; i > 0 && place(b->member[i - 1].name) > at; i--)
        b->member[i] = b->member[i - 1];
    b->member[i] = (struct rp_member){.name = rp_strdup(name)};
    rp_buf_add(&b->member[i].bytes, data, size);
    b->n++;
    return 0;
}

static int all_there(const struct rp_bundle *b, struct rp_err *err)
{
    for (int row = 0; row < ROWS; row++)
        if (rows[row].required && !rp_bundle_find(b, rows[row].name))
            return rp_fail(err, RP_MALFORMED, "member '%s' is missing", rows[row].name);
    return 0;
}

/* ---- writing ---- */

void rp_bundle_sums(struct rp_buf *out, const struct rp_bundle *b)
{
    for (int i = 0; i < b->n; i++) {
        const struct rp_member *m = &b->member[i];
        char hex[RP_SHA256_HEX];
        if (strcmp(m->name, STATEMENT) == 0 || strncmp(m->name, SUMS, strlen(SUMS)) == 0)
            continue;
        rp_sha256_hex(hex, m->bytes.data, m->bytes.size);
        rp_buf_printf(out, "%s  %s\n", hex, m->name);
    }
}

int rp_bundle_subjects(const struct rp_bundle *b, struct rp_subject *subject)
{
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        const struct rp_member *m = &b->member[i];
        if (strcmp(m->name, STATEMENT) == 0)
            continue;
        subject[n].name = m->name;
        rp_sha256_hex(subject[n++].sha256, m->bytes.data, m->bytes.size);
    }
    return n;
}

/* SHA256SUMS once more in the forms that signify and minisign check. */
static int add_stock_forms(struct rp_bundle *b, const struct rp_key_pair *key, const struct rp_buf *sums, struct rp_err *err)
{
    RP_BUF signify = {0}, minisign = {0};
    if (rp_signify_sign(&signify, key, sums->data, sums->size, err) < 0 ||
        rp_minisign_sign(&minisign, key, sums->data, sums->size, SUMS, err) < 0)
        return -1;
    if (rp_bundle_add(b, SUMS ".sig", signify.data, signify.size, err) < 0)
        return -1;
    return rp_bundle_add(b, SUMS ".minisig", minisign.data, minisign.size, err);
}

static int add_statement(struct rp_bundle *b, const struct rp_key_pair *key, struct rp_err *err)
{
    struct rp_subject subject[RP_BUNDLE_MEMBERS_MAX];
    char hex[RP_SHA256_HEX];
    RP_BUF payload = {0}, envelope = {0};
    const struct rp_member *run = rp_bundle_find(b, "run.json");
    if (!run)
        return rp_fail(err, RP_BUG, "a bundle without run.json cannot be sealed");
    RP_JSON *j = rp_json_parse(run->bytes.data, run->bytes.size, "run.json", err);
    if (!j)
        return -1;
    rp_sha256_hex(hex, run->bytes.data, run->bytes.size);
    int n = rp_bundle_subjects(b, subject);
    RP_JSON *statement = rp_statement(subject, n, rp_statement_predicate(j, hex));
    RP_BUG_IF(!statement);
    rp_json_write(&payload, statement);
    if (rp_dsse_seal(&envelope, payload.data, payload.size, key, err) < 0)
        return -1;
    return rp_bundle_add(b, STATEMENT, envelope.data, envelope.size, err);
}

int rp_bundle_seal(struct rp_bundle *b, const struct rp_key_pair *key, struct rp_buf *file, struct rp_err *err)
{
    RP_BUF pem = {0}, sums = {0}, tar = {0};
    size_t script_size, total = 0;
    const char *script = rp_bundle_script(&script_size);
    rp_key_public_pem(key, &pem);
    if (rp_bundle_add(b, "key.pem", pem.data, pem.size, err) < 0 ||
        rp_bundle_add(b, "verify.sh", script, script_size, err) < 0)
        return -1;
    rp_bundle_sums(&sums, b);
    if (rp_bundle_add(b, SUMS, sums.data, sums.size, err) < 0 || add_stock_forms(b, key, &sums, err) < 0 ||
        add_statement(b, key, err) < 0 || all_there(b, err) < 0)
        return -1;
    for (int i = 0; i < b->n; i++) {
        rp_tar_add(&tar, b->member[i].name, b->member[i].bytes.data, b->member[i].bytes.size);
        total += b->member[i].bytes.size;
    }
    rp_tar_end(&tar);
    if (total > RP_BUNDLE_TOTAL_MAX)
        return rp_fail(err, RP_UNAVAILABLE, "the members have %zu bytes together; a bundle holds %lu at most", total, RP_BUNDLE_TOTAL_MAX);
    return rp_zst_pack(file, tar.data, tar.size, err);
}

/* ---- reading ---- */

static int read_members(struct rp_bundle *b, const struct rp_buf *tar, struct rp_err *err)
{
    char name[RP_TAR_NAME_MAX + 1], safe[RP_TAR_NAME_MAX + 1];
    const char *data;
    size_t at = 0, size;
    int more, last = -1;
    while ((more = rp_tar_next(tar, &at, name, &data, &size, err)) > 0) {
        if (rp_bundle_add(b, name, data, size, err) < 0)
            return -1;
        if (place(name) < last)
            return rp_fail(err, RP_MALFORMED, "member '%s' is not in its place; members have a fixed order",
                           rp_safe(safe, sizeof safe, name));
        last = place(name);
    }
    return more < 0 ? -1 : all_there(b, err);
}

int rp_bundle_read(struct rp_bundle *b, const char *data, size_t size, struct rp_err *err)
{
    RP_BUF tar = {0};
    *b = (struct rp_bundle){0};
    size_t limit = RP_BUNDLE_TOTAL_MAX + RP_BUNDLE_MEMBERS_MAX * 1024ul;
    if (rp_zst_unpack(&tar, data, size, limit, err) < 0)
        return -1;
    if (read_members(b, &tar, err) < 0) {
        rp_bundle_fini(b);
        return -1;
    }
    return 0;
}

int rp_bundle_open(struct rp_bundle *b, const char *path, struct rp_err *err)
{
    RP_BUF file = {0};
    *b = (struct rp_bundle){0};
    if (rp_read_file(&file, path, RP_BUNDLE_FILE_MAX, err) < 0)
        return -1;
    if (rp_bundle_read(b, rp_buf_text(&file), file.size, err) < 0)
        return rp_wrap(err, "bundle '%s'", path);
    return 0;
}
