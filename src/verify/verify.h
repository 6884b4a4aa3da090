/* Verification: one file that nobody vouches for in, a table of checks and one verdict out.
 *
 * What:    the checks of checks.def over a bundle; what is fatal stops the rest, so nothing is parsed that was not signed.
 * Flow:    path -> rp_verify() -> struct rp_verification -> text or JSON.
 * Owner:   struct rp_verification is the caller's and owns nothing but its documents; rp_verification_fini().
 * Extend:  one row in checks.def and one function rp_check_<id>() in one of the files beside this one.
 */
#ifndef RP_VERIFY_VERIFY_H
#define RP_VERIFY_VERIFY_H

#include "base/buf.h"
#include "base/err.h"
#include "bundle/bundle.h"
#include "recipe/recipe.h"
#include "report/records.h"
#include "report/samples.h"
#include "sign/key.h"
#include "verify/replay.h"

#include <jansson.h>

enum rp_check_id {
#define VERIFY(id, severity, proves, how) RP_CHECK_##id,
#include "verify/checks.def"
#undef VERIFY
    RP_CHECK_COUNT
};

enum rp_check_state {
    RP_CHECK_SKIPPED, /* not asked for, not possible here, or an earlier check failed */
    RP_CHECK_PASSED,
    RP_CHECK_NOTE, /* passed, with something to know: key unknown, data not pinned, run incomplete */
    RP_CHECK_WARNING, /* suspicious, and does not decide the verdict */
    RP_CHECK_FAILED
};
enum rp_severity { RP_SEVERITY_FATAL, RP_SEVERITY_FAIL, RP_SEVERITY_WARN, RP_SEVERITY_INFO }; /* checks.def says what each does */

const char *rp_check_state_name(enum rp_check_state state); /* "passed", "failed", ... as in JSON */
const char *rp_check_name(int id);                          /* its id as text, 0 <= id < RP_CHECK_COUNT */
/* Every check with severity, what it proves and how. */
void rp_checks_text(struct rp_buf *out);
json_t *rp_checks_json(void);

struct rp_check_result {
    const char *name, *proves; /* static; name: the id of checks.def */
    enum rp_check_state state;
    char text[512]; /* what was found; one line, safe to print */
};

/* UNDECIDED: nothing is wrong with the bundle as far as it was looked at, but the replay or the page that was asked for could not be. */
enum rp_verdict { RP_VERDICT_FAILED, RP_VERDICT_UNKNOWN_KEY, RP_VERDICT_VERIFIED, RP_VERDICT_UNDECIDED };
const char *rp_verdict_name(enum rp_verdict v); /* for programs: "failed", "verified-unknown-key", "verified", "undecided" */
const char *rp_verdict_text(enum rp_verdict v); /* "FAILED", "verified, but the key is unknown", "verified", ... */

struct rp_verification;

/* What was verified, for those who go on with it: the very bytes that the checks saw, not the file read a second time. */
struct rp_verified {
    struct rp_bundle bundle; /* of large members the digests alone (rp_bundle_scan) */
    json_t *before, *after; /* captures */
    struct rp_records records;
    struct rp_recipe recipe;
    struct rp_samples samples; /* n 0: none */
};
void rp_verified_fini(struct rp_verified *kept);

struct rp_policy; /* verify/policy.h */

/* Compares a page with the bundle, unless that failed before. 0: found->state is PASSED or NOTE, with its text. RP_UNAVAILABLE: it could not
 * be compared in full. */
typedef int rp_verify_page(void *arg, const struct rp_verification *v, const struct rp_verified *kept, struct rp_check_result *found,
                           struct rp_err *err);

struct rp_verify_opts {
    const char *trust;            /* --trust: public key file, fingerprint, or a name in the trust store; NULL: look in the store */
    const char *original;         /* --original: the run that this one repeats; NULL: only what the bundle says */
    const char *ledger;           /* --ledger: the signer's, exported; NULL: only what the bundle says */
    struct rp_replay_opts replay; /* replay.steps 0: no replay */
    const struct rp_policy *policy; /* NULL: none */
    rp_verify_page *page;           /* the check report_file; NULL: no page was given */
    void *page_arg;
    const char *base;               /* another bundle, to hold the speed-up against; or NULL */
    struct rp_verified *keep;     /* NULL, or zeroed: filled unless the verdict is FAILED */
};

struct rp_verification {
    struct rp_check_result check[RP_CHECK_COUNT];
    enum rp_verdict verdict;
    enum rp_verdict bundle; /* the verdict without --report */
    char fingerprint[RP_FINGERPRINT_SIZE]; /* of the key that signed; "" before that is known */
    char statement[65];                    /* SHA-256 of statement.dsse.json: what names this bundle; "" where there is none */
    char signer[128];                      /* its name in the trust store, or "" */
    json_t *signatures;                    /* counter-signatures: [{"number", "valid", "fingerprint", "role", "at", "note", "program",
                                              "trusted", "name", "until"}], "why" in place of all from "fingerprint" where not valid; NULL
                                              before they were looked at */
    json_t *run;                           /* run.json once digests and schema passed, else NULL */
    int64_t replay_from, replayed;         /* steps trained again with the same bits: so many, from that one on */
    json_t *replay;                        /* rp_replay_json() of one that was done, or NULL */
    json_t *policy;                        /* [{"rule", "holds", "text"}] of those that were asked for, or NULL */
    json_t *ledger;                        /* what --ledger says of the run: {"position", "lines", "attempt", "attempts", "sealed",
                                              "failed", "interrupted", "open", "later", "recorded"}, or NULL; NULL where it was not found
                                              there */
    int original;                          /* the run of --original was verified, and how both agree computed again */
    int64_t original_steps;                /* that it trained */
};

/* 0: verified, or verified by a key that is not known. -1: the first failed check's code and message are in *err. *v is filled
 * either way. */
int rp_verify(struct rp_verification *v, const char *path, const struct rp_verify_opts *o, struct rp_err *err) rp_must_check;
void rp_verification_fini(struct rp_verification *v);
const char *rp_counter_role(const struct rp_verification *v, const char *fingerprint); /* of the first by that key; NULL: none */

/* The table and the verdict for people; as {"verdict", "bundle_verdict" where a page alone
 * makes another of it, "fingerprint", "signer", "checks": [{"check", "severity", "state", "text",
 * "proves"}],
 * "results", "replay", "policy", "signatures", "ledger"} for programs. */
void rp_verification_text(struct rp_buf *out, const struct rp_verification *v, int colour);
void rp_verification_line(struct rp_buf *out, const struct rp_verification *v); /* the last line of the text, without its end */
json_t *rp_verification_json(const struct rp_verification *v);

#endif
