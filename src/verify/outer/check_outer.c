/* The outer checks: form, signature, key, statement, digests. No member is parsed before they pass. */
#include "base/json.h"
#include "base/text.h"
#include "bundle/pack.h"
#include "bundle/source.h"
#include "bundle/schema.h"
#include "sign/minisign.h"
#include "sign/statement.h"
#include "sign/trust.h"
#include "verify/policy/policy.h"
#include "verify/state.h"

#include <string.h>

#define STATEMENT_VALUES 1000000 /* its own schema allows far fewer */

int rp_check_container(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    size_t total = 0;
    struct rp_bundle_source source;
    const int opened = rp_bundle_source_open(&source, s->path, err);
    s->fd = source.fd;
    if (opened < 0)
        return -1;
    if (rp_bundle_scan(&s->bundle, s->fd, err) < 0)
        return err->code == RP_VERSION ? -1 : rp_wrap(err, "bundle '%s'", s->path);
    const struct rp_member *statement = rp_bundle_find(&s->bundle, "statement.dsse.json");
    rp_member_sha256(s->v->statement, statement);
    for (int i = 0; i < s->bundle.n; i++)
        total += rp_member_size(&s->bundle.member[i]);
    if (source.unpacked)
        return rp_check_not_applicable(result, "an unpacked directory: %d members, %zu bytes", s->bundle.n, total);
    return rp_check_text(result, "%d members, %zu bytes", s->bundle.n, total);
}

int rp_check_signature(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    RP_BUF pem = {0};
    const struct rp_member *statement = rp_bundle_find(&s->bundle, "statement.dsse.json"),
                           *key = rp_bundle_find(&s->bundle, "key.pem");
    s->key = rp_key_load_public(rp_buf_text(&key->bytes), key->bytes.size, "key.pem", err);
    if (!s->key)
        return -1;
    rp_key_public_pem(s->key, &pem);
    if (!rp_buf_is(&pem, key->bytes.data, key->bytes.size))
        return rp_fail(err, RP_MALFORMED, "key.pem is not one public key in canonical form");
    if (rp_dsse_parse(&s->envelope, rp_buf_text(&statement->bytes), statement->bytes.size, err) < 0 ||
        rp_dsse_check(&s->envelope, s->key, err) < 0)
        return rp_wrap(err, "statement.dsse.json");
    rp_key_fingerprint(s->key, s->v->fingerprint);
    return rp_check_text(result, "Ed25519, by %s", s->v->fingerprint);
}

/* --trust names the author's key, or a countersigner's if the author is trusted: a reviewer does not vouch for the
 * author. */
static int check_named_key(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char wanted[RP_FINGERPRINT_SIZE], safe[200];
    const struct rp_verification *v = s->v;
    if (rp_trust_resolve(wanted, s->o->trust, err) < 0)
        return rp_wrap(err, "--trust");
    const char *role = rp_countersign_role(v, wanted);
    if (strcmp(wanted, v->fingerprint) == 0)
        return rp_check_text(result, "the key named with --trust");
    if (!role)
        return rp_fail(err, RP_SIGNATURE, "signed by another key, %s, not by '%s' (%s)", v->fingerprint,
                       rp_ascii(safe, sizeof safe, s->o->trust), wanted);
    if (*v->signer)
        return rp_check_text(result, "the key of --trust countersigned as %s; the author is '%s' in your trust store",
                             role, v->signer);
    return rp_fail(err, RP_SIGNATURE,
                   "the key of --trust countersigned as %s, but the author's key, %s, is unknown: trust it, or use a "
                   "policy with countersigned_by",
                   role, v->fingerprint);
}

/* A key that was not named and is not in the trust store may be the verifier's own. */
static int check_own_key(struct rp_verify_state *s, struct rp_check_result *result)
{
    char own[RP_FINGERPRINT_SIZE], encrypted[240] = "";
    struct rp_err why = {0};
    const int none = rp_key_own(own, &why) < 0;
    if (!none && strcmp(own, s->v->fingerprint) == 0) {
        s->v->standing = RP_STANDING_OWN;
        return rp_check_text(result, "your own key");
    }
    if (s->o->any_key)
        return rp_check_note(result, "unknown, and accepted as any key is (--any-key)");
    if (none && why.code == RP_UNAVAILABLE)
        RP_FORMAT(encrypted, "; your own was not compared: %.200s", why.msg);
    return rp_check_note(result,
                         "unknown: get the fingerprint from the signer, compare it with the one that signed this "
                         "bundle, then give it with --trust or 'repro key trust'%s",
                         encrypted);
}

/* The key inside the bundle proves nothing: it is compared with --trust, or else
 * looked up in the user's trust store. */
int rp_check_key(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE];
    struct rp_err why = {0};
    struct rp_verification *v = s->v;
    int found = rp_trust_find(v->fingerprint, name, until, &why);
    if (found > 0)
        memcpy(v->signer, name, sizeof name);
    if (s->o->trust) {
        if (check_named_key(s, result, err) < 0)
            return -1;
        v->standing = RP_STANDING_TRUSTED;
        return 0;
    }
    if (found > 0) {
        v->standing = RP_STANDING_TRUSTED;
        return rp_check_text(result, "in your trust store as '%s'%s%s", name, *until ? " until " : "", until);
    }
    if (s->o->policy && rp_policy_names(s->o->policy, v->fingerprint)) {
        v->standing = RP_STANDING_TRUSTED;
        return rp_check_text(result, "named by signed_by of your policy");
    }
    v->standing = s->o->any_key ? RP_STANDING_ANY : RP_STANDING_UNKNOWN;
    if (*name)
        return rp_check_note(result, "no longer trusted: your trust store had it as '%s' until %s", name, until);
    if (found < 0 && why.code != RP_USAGE) /* RP_USAGE: no home directory, so no store */
        return rp_check_note(result, "unknown; the trust store cannot be read completely: %.300s", why.msg);
    return check_own_key(s, result);
}

int rp_verify_whose_key(char out[RP_WHOSE_KEY], const struct rp_verify_state *s, const struct rp_verification *other)
{
    const char *print = other->fingerprint;
    int unknown = 0;
    if (strcmp(print, s->v->fingerprint) == 0)
        snprintf(out, RP_WHOSE_KEY, "%s, the same key", print);
    else if (*other->signer && other->standing == RP_STANDING_TRUSTED)
        snprintf(out, RP_WHOSE_KEY, "%s, in your trust store as '%s'", print, other->signer);
    else if (other->standing == RP_STANDING_OWN)
        snprintf(out, RP_WHOSE_KEY, "%s, your own key", print);
    else if (s->o->policy && rp_policy_names(s->o->policy, print))
        snprintf(out, RP_WHOSE_KEY, "%s, named by signed_by of your policy", print);
    else
        unknown = snprintf(out, RP_WHOSE_KEY, "%s, a key that is unknown here", print) > 0;
    return unknown;
}

int rp_check_statement(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_buf *payload = &s->envelope.payload;
    int own = 0;
    (void)result;
    s->statement = rp_json_parse_own(payload->data, payload->size, STATEMENT_VALUES, &own, "statement", err);
    if (!s->statement || rp_statement_version(s->statement, "the bundle's statement", err) < 0)
        return -1;
    const int is_command = rp_bundle_kind(&s->bundle) == RP_BUNDLE_COMMAND;
    const struct rp_schema *schema = rp_schema_load(is_command ? "command-statement" : "statement", err);
    if (!schema || rp_schema_check(schema, s->statement, "statement", err) < 0)
        return -1;
    if (!own)
        return rp_fail(err, RP_MALFORMED, "the statement is not in canonical form");
    return 0;
}

static const struct rp_subject *find_subject(const struct rp_subject *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

int rp_check_digests(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    RP_FREE struct rp_subject *is = rp_alloc(RP_BUNDLE_MEMBERS_MAX * sizeof *is),
                              *was = rp_alloc(RP_BUNDLE_MEMBERS_MAX * sizeof *was);
    char safe[RP_TAR_NAME_MAX + 1];
    int n_is = rp_bundle_subjects(&s->bundle, is),
        n_was = rp_statement_subjects(s->statement, was, RP_BUNDLE_MEMBERS_MAX, err);
    if (n_was < 0)
        return -1;
    for (int i = 0; i < n_was; i++)
        if (!find_subject(is, n_is, was[i].name))
            return rp_fail(err, RP_MISMATCH, "member '%s' was signed but is missing",
                           rp_ascii(safe, sizeof safe, was[i].name));
    for (int i = 0; i < n_is; i++) {
        const struct rp_subject *expected = find_subject(was, n_was, is[i].name);
        if (!expected)
            return rp_fail(err, RP_MISMATCH, "member '%s' was not signed: added later", is[i].name);
        if (strcmp(expected->sha256, is[i].sha256) != 0)
            return rp_fail(err, RP_MISMATCH, "member '%s' was changed: SHA-256 %.16s..., signed %.16s...", is[i].name,
                           is[i].sha256, expected->sha256);
        if (strcmp(was[i].name, is[i].name) != 0)
            return rp_fail(err, RP_MISMATCH, "the subjects of the statement are not in the order of the members");
    }
    return rp_check_text(result, "%d members have their signed digests", n_is);
}

/* What the verify.sh of an earlier version lacks, which sealed bundles have; NULL: it is of none. A script that is
 * changed leaves its old digest here. */
static const char *find_earlier_script(const struct rp_member *m)
{
    static const struct {
        const char *sha256, *lacks;
    } earlier[] = {{"90bf7017f7e010d25ccecf7bdac633b12785276f4d22dfe4ee53322a5cfc2e02",
                    "takes no more than 1,000 members, needs GNU's sha256sum and obeys CDPATH"},
                   {"9b665170d7dc5b1448fa3f4efd383968228f9a2bd406fae0b8c783d9d55789c0", "obeys CDPATH"},
                   {"c399b0816f9a635a3fb0870b69b35659cb23b4008af4f30a4b1ab553dc01d99f", "knows no commands"},
                   {"9c72f93f55562830ace754057f2d370cecb4abc1aae57ffebc34dcf50e0197fb",
                    "takes no more than 2,848 members"}};
    char hex[RP_SHA256_HEX];
    rp_member_sha256(hex, m);
    for (size_t i = 0; i < sizeof earlier / sizeof *earlier; i++)
        if (strcmp(earlier[i].sha256, hex) == 0)
            return earlier[i].lacks;
    return NULL;
}

int rp_check_helper_files(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    RP_BUF sums = {0};
    size_t size;
    const char *script = rp_bundle_script(&size);
    const struct rp_member *m = rp_bundle_find(&s->bundle, "SHA256SUMS");
    rp_bundle_sums(&sums, &s->bundle);
    if (!rp_buf_is(&m->bytes, sums.data, sums.size))
        return rp_fail(err, RP_MISMATCH, "SHA256SUMS does not list the digests of the members");
    m = rp_bundle_find(&s->bundle, "verify.sh");
    if (rp_buf_is(&m->bytes, script, size))
        return 0;
    const char *lacks = find_earlier_script(m);
    if (lacks)
        return rp_check_text(result, "verify.sh is that of an earlier version, which %s", lacks);
    return rp_check_note(result, "verify.sh is not the script of this version: read it before you run it");
}

int rp_check_stock_signatures(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_member *sums = rp_bundle_find(&s->bundle, "SHA256SUMS"),
                           *sig = rp_bundle_find(&s->bundle, "SHA256SUMS.sig"),
                           *minisig = rp_bundle_find(&s->bundle, "SHA256SUMS.minisig");
    (void)result;
    if (rp_signify_check(rp_buf_text(&sig->bytes), sig->bytes.size, s->key, sums->bytes.data, sums->bytes.size,
                         sig->name, err) < 0)
        return -1;
    return rp_minisign_check(rp_buf_text(&minisig->bytes), minisig->bytes.size, s->key, sums->bytes.data,
                             sums->bytes.size, minisig->name, err);
}
