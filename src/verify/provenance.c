/* Verifies the provenance of a release: signature, key, and the digests of the files next to the envelope. */
#include "verify/provenance.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "report/figure.h"
#include "sign/dsse.h"
#include "sign/statement.h"
#include "sign/trust.h"
#include "verify/verify.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVELOPE_MAX (1ul << 20)
#define KEY_MAX 4096
#define PREDICATE_TYPE "https://slsa.dev/provenance/v1"

const char rp_provenance_text[] = "{/summary p}\n"
                                  "[/provenance/files:{/state c:passed=32,missing=31,FAILED=31}\t{/name t}\n]"
                                  "[/fingerprint:\nbuilt from commit {/provenance/commit t} ({/provenance/tree t})\n"
                                  "signed by {/fingerprint t}[/signer: ({/signer t})]\n]";

int rp_provenance_is(const char *path)
{
    char first = 0;
    RP_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return rp_ends_with(path, ".intoto.dsse.json") && fd >= 0 && RP_RETRY(read(fd, &first, 1)) == 1 && first == '{';
}

/* The name of a file next to the envelope. */
static char *path_beside(const char *envelope, const char *name)
{
    const char *slash = strrchr(envelope, '/');
    return rp_asprintf("%.*s%s", slash ? (int)(slash - envelope + 1) : 0, envelope, name);
}

static struct rp_key_pair *load_key(const char *envelope, const char *trust, struct rp_err *err)
{
    RP_BUF pem = {0};
    const int is_file = trust && (strchr(trust, '/') || rp_ends_with(trust, ".pem") || rp_ends_with(trust, ".pub"));
    RP_FREE char *path = is_file ? rp_strdup(trust) : path_beside(envelope, "key.pem");
    if (rp_read_file(&pem, path, KEY_MAX, err) < 0)
        return rp_fail_null(
            err, RP_IO, "the public key that signed '%s' is neither next to it as key.pem nor named by --trust FILE",
            envelope);
    return rp_key_load_public(rp_buf_text(&pem), pem.size, path, err);
}

/* Whose key it is, as for a bundle: --trust, the trust store, the own one. */
static int judge_key(json_t *j, const char *print, const char *trust, int any_key, struct rp_err *err)
{
    char wanted[RP_FINGERPRINT_SIZE], own[RP_FINGERPRINT_SIZE], name[RP_TRUST_NAME] = "", until[RP_DATE_SIZE];
    struct rp_err ignored;
    enum rp_standing standing = any_key ? RP_STANDING_ANY : RP_STANDING_UNKNOWN;
    if (trust && rp_trust_resolve(wanted, trust, err) < 0)
        return rp_wrap(err, "--trust");
    if (trust && strcmp(wanted, print) != 0)
        return rp_fail(err, RP_SIGNATURE, "signed by another key, %s, not by that of --trust (%s)", print, wanted);
    if (rp_trust_find(print, name, until, &ignored) > 0) {
        json_object_set_new(j, "signer", json_string(name));
        standing = RP_STANDING_TRUSTED;
    } else if (trust) {
        standing = RP_STANDING_TRUSTED;
    } else if (rp_key_own(own, &ignored) == 0 && strcmp(own, print) == 0) {
        standing = RP_STANDING_OWN;
    }
    json_object_set_new(j, "standing", json_string(rp_standing_name(standing)));
    return standing == RP_STANDING_UNKNOWN;
}

static int check_form(const struct rp_statement_document *s, struct rp_err *err)
{
    if (strcmp(rp_text_or_empty(s->_type), RP_STATEMENT_TYPE) != 0 ||
        strcmp(rp_text_or_empty(s->predicateType), PREDICATE_TYPE) != 0)
        return rp_fail(err, RP_MALFORMED, "the statement is not provenance of SLSA v1");
    return s->subject_n ? 0 : rp_fail(err, RP_MALFORMED, "the statement has no subjects");
}

/* Each file is read once: the same one named ten thousand times would take hours. */
static int check_names(const struct rp_statement_document *s, struct rp_err *err)
{
    char shown[72];
    for (int64_t i = 0; i < s->subject_n; i++) {
        const char *name = rp_text_or_empty(s->subject[i].name);
        for (int64_t k = 0; k < i; k++)
            if (strcmp(name, rp_text_or_empty(s->subject[k].name)) == 0)
                return rp_fail(err, RP_MALFORMED, "the statement names the file '%s' twice", rp_excerpt(shown, name));
    }
    return 0;
}

/* Compares the file of a subject with its digest: "passed", "FAILED" or "missing". */
static const char *check_file(const char *envelope, const struct rp_statement_subject *subject, struct rp_err *err)
{
    char is[RP_SHA256_HEX], shown[72];
    struct rp_err ignored;
    const char *name = rp_text_or_empty(subject->name), *digest = subject->digest.sha256;
    if (!*name || strchr(name, '/') || strcmp(name, "..") == 0)
        return rp_fail_null(err, RP_MALFORMED, "the name of a subject is not that of a file next to the envelope");
    if (!digest)
        return rp_fail_null(err, RP_MALFORMED, "the statement has no SHA-256 of '%s'", rp_excerpt(shown, name));
    RP_FREE char *path = path_beside(envelope, name);
    if (rp_sha256_file(is, path, NULL, &ignored) < 0)
        return "missing";
    return strcmp(is, digest) == 0 ? "passed" : "FAILED";
}

/* Adds "files"; *passed: how many have their digest. */
static int check_files(json_t *provenance, const char *envelope, const struct rp_statement_document *s,
                       int64_t *passed, struct rp_err *err)
{
    json_t *list = json_array();
    json_object_set_new(provenance, "files", list);
    for (int64_t i = 0; i < s->subject_n; i++) {
        const char *state = check_file(envelope, &s->subject[i], err);
        if (!state)
            return -1;
        *passed += strcmp(state, "passed") == 0;
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", s->subject[i].name, "state", state));
    }
    return 0;
}

static void set_verdict(json_t *j, enum rp_verdict v, int64_t passed, int64_t n)
{
    const int failed = v == RP_VERDICT_FAILED;
    RP_FREE char *summary = rp_asprintf("%s%s: %" PRId64 " of %" PRId64 " files are those of the release",
                                        failed ? "" : "release ", rp_verdict_text(v), passed, n);
    RP_FREE char *verdict = rp_asprintf("%s%s", failed ? "" : "release-", rp_verdict_name(v));
    json_object_set_new(j, "verdict", json_string(verdict));
    json_object_set_new(j, "summary", json_string(summary));
}

static int judge_statement(json_t *j, const char *path, const struct rp_envelope *e, const char *trust, int any_key,
                           struct rp_err *err)
{
    int64_t passed = 0;
    RP_JSON *json = rp_json_parse(rp_buf_text(&e->payload), e->payload.size, "statement", err);
    RP_READ(statement_document, statement, json);
    if (!json || check_form(&statement, err) < 0)
        return -1;
    const json_t *from = rp_pointer(json, "/predicate/buildDefinition/externalParameters");
    json_t *provenance =
        json_pack("{s:s, s:s}", "commit", rp_json_text_at(from, "commit"), "tree", rp_json_text_at(from, "tree"));
    const int unknown = judge_key(j, rp_json_text_at(j, "fingerprint"), trust, any_key, err);
    json_object_set_new(j, "provenance", provenance);
    if (unknown < 0 || check_names(&statement, err) < 0 || check_files(provenance, path, &statement, &passed, err) < 0)
        return -1;
    const int64_t n = statement.subject_n;
    set_verdict(j, passed < n ? RP_VERDICT_FAILED : unknown ? RP_VERDICT_UNKNOWN_KEY : RP_VERDICT_VERIFIED, passed, n);
    if (passed < n)
        return rp_fail(err, RP_MISMATCH,
                       "%" PRId64 " of %" PRId64 " files differ from those of the release, or are missing", n - passed,
                       n);
    return unknown ? rp_fail(err, RP_UNKNOWN_KEY,
                             "the key that signed, %s, is unknown here: name it with --trust, or accept any "
                             "with --any-key",
                             rp_json_text_at(j, "fingerprint"))
                   : 0;
}

static int verify_envelope(json_t **document, struct rp_envelope *e, const struct rp_buf *text, const char *path,
                           const char *trust, int any_key, struct rp_err *err)
{
    char digest[RP_SHA256_HEX], print[RP_FINGERPRINT_SIZE];
    if (rp_dsse_parse(e, rp_buf_text(text), text->size, err) < 0)
        return rp_wrap(err, "'%s' is neither a bundle nor the provenance of a release", path);
    RP_KEY *key = load_key(path, trust, err);
    if (!key)
        return -1;
    if (rp_dsse_check(e, key, err) < 0)
        return rp_wrap(err, "'%s'", path);
    rp_sha256_hex(digest, text->data, text->size);
    rp_key_fingerprint(key, print);
    *document = json_pack("{s:s, s:s}", "statement", digest, "fingerprint", print);
    return judge_statement(*document, path, e, trust, any_key, err);
}

int rp_provenance_verify(json_t **document, const char *path, const char *trust, int any_key, struct rp_err *err)
{
    RP_BUF text = {0};
    struct rp_envelope e = {0};
    *document = NULL;
    if (rp_read_file(&text, path, ENVELOPE_MAX, err) < 0)
        return -1;
    const int failed = verify_envelope(document, &e, &text, path, trust, any_key, err) < 0;
    rp_envelope_fini(&e);
    if (!json_object_get(*document, "verdict")) {
        json_decref(*document);
        *document = NULL;
    }
    return failed ? -1 : 0;
}
