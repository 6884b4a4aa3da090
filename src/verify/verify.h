/* Verification of a bundle: a table of checks and one verdict.
 *
 * What:    runs the checks of checks.def in order; a fatal failure stops the rest, so that nothing unsigned is parsed.
 * Flow:    path -> rp_verify() -> struct rp_verification -> text or JSON.
 * Owner:   rp_verification_fini() frees the documents in struct rp_verification.
 * Extend:  one row in checks.def, whose head has the rest.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/object.h"
#include "bundle/bundle.h"
#include "recipe/recipe.h"
#include "report/template.h"
#include "run/run.h"
#include "sign/challenge.h"
#include "sign/key.h"
#include "verify/replay/replay.h"

#include <jansson.h>

enum rp_check_id {
#define VERIFY(id, of, severity, proves, how) RP_CHECK_##id,
#include "verify/checks.def"
#undef VERIFY
    RP_CHECK_COUNT
};

enum rp_check_state {
    RP_CHECK_SKIPPED, /* not requested, not possible here, or an earlier check failed */
    RP_CHECK_NOT_APPLICABLE, /* the bundle has nothing that it could check: it never counts, and no policy accepts it */
    RP_CHECK_PASSED,
    RP_CHECK_NOTE, /* passed with a remark: key unknown, data not pinned, run incomplete */
    RP_CHECK_WARNING, /* suspicious; does not change the verdict */
    RP_CHECK_FAILED
};
enum rp_severity { RP_SEVERITY_FATAL, RP_SEVERITY_FAIL, RP_SEVERITY_WARN, RP_SEVERITY_INFO }; /* see checks.def */

const char *rp_check_state_name(enum rp_check_state state); /* "passed", "failed", ... as in JSON */
const char *rp_check_name(int id);                          /* its id as text, 0 <= id < RP_CHECK_COUNT */
/* Every check with severity, what it proves and how. */
json_t *rp_checks_json(void);

struct rp_check_result {
    const char *name, *proves; /* static; name: the id of checks.def */
    enum rp_check_state state;
    int requested; /* by an option: its result is an answer, whatever it is */
    char text[512]; /* what was found; one line, safe to print */
};

/* Checks of the bundle by their state: without `policy`, which are the verifier's rules, and `claims`, which only
 * lists. Applicable: they passed, failed or have a remark. */
struct rp_check_counts {
    int of[RP_CHECK_FAILED + 1], applicable;
};
struct rp_verification;
struct rp_check_counts rp_check_counts(const struct rp_verification *v);

/* Every verdict, the most serious first: a bundle gets the first one that applies.
 * X(id, exit status by its code, name in JSON, text); the code of FAILED and INCONCLUSIVE is that of the check.
 * INCOMPLETE comes before UNKNOWN_KEY: whose key it is depends on the reader, who may not care (--any-key), but
 * nothing makes a run that ended early a whole one. */
#define RP_VERDICTS(X)                                                                                                 \
    X(FAILED, RP_MISMATCH, "failed", "FAILED")                                                                         \
    X(OTHER_VERSION, RP_VERSION, "other-version", "not checked")                                                       \
    X(INCONCLUSIVE, RP_UNAVAILABLE, "inconclusive",                                                                    \
      "inconclusive: a requested check could not be completed; no check failed")                                       \
    X(POLICY, RP_POLICY, "policy-broken", "verified, but your policy does not hold")                                   \
    X(INCOMPLETE, RP_INCOMPLETE, "verified-incomplete", "verified, but the run did not reach its end")                 \
    X(UNKNOWN_KEY, RP_UNKNOWN_KEY, "verified-unknown-key", "verified, but the key is unknown")                         \
    X(VERIFIED, RP_OK, "verified", "verified")
enum rp_verdict {
#define X(id, code, name, text) RP_VERDICT_##id,
    RP_VERDICTS(X)
#undef X
};
const char *rp_verdict_name(enum rp_verdict v);
const char *rp_verdict_text(enum rp_verdict v);
/* FAILED and OTHER_VERSION: nothing in the bundle is shown. */
static inline int rp_verdict_shows(enum rp_verdict v)
{
    return v > RP_VERDICT_OTHER_VERSION;
}

/* Whose key signed: nobody's here; anybody's, as with --any-key; one that the verifier named or trusts; the verifier's
 * own. */
enum rp_standing { RP_STANDING_UNKNOWN, RP_STANDING_ANY, RP_STANDING_TRUSTED, RP_STANDING_OWN };
const char *rp_standing_name(enum rp_standing s); /* "unknown", "any", "trusted", "own" */

/* The parsed parts of a verified bundle: the bytes that the checks read, so that the file is not read a second time. */
struct rp_verified {
    struct rp_bundle bundle; /* of large members only the digests (rp_bundle_scan) */
    struct rp_run run;
};
void rp_verified_fini(struct rp_verified *kept);
/* -1 and RP_UNAVAILABLE: it is not of a run, so it cannot be replicated, replayed or compared step by step. */
int rp_verified_run(const struct rp_verified *kept, const char *path, struct rp_err *err) rp_must_check;
#define RP_VERIFIED __attribute__((cleanup(rp_verified_fini))) struct rp_verified

struct rp_policy; /* verify/policy/policy.h */
struct rp_tsa_ca; /* sign/timestamp.h */

struct rp_verify_opts {
    const char *trust;   /* --trust: public key file, fingerprint, or a name in the trust store; NULL: look there */
    int any_key;         /* --any-key: an unknown key is accepted */
    int64_t received_ns; /* --received: the end of the second in which the bundle came, since 1970; 0: now */
    const char *seen;    /* own record of verifications, for forked ledgers; NULL: not compared */
    const struct rp_policy *policy; /* NULL: none */
    /* other files */
    const char *original;           /* --original: the run that this one replicates; NULL: not compared */
    const char *replication;        /* --replication: the one that a countersignature names; NULL: none is replayed */
    const char *baseline;           /* --baseline: another bundle, for the speed-up; or NULL */
    const char *ledger;             /* --ledger: the signer's ledger, exported; NULL: not looked up */
    const struct rp_tsa_ca *tsa_ca; /* --tsa-ca: whose time stamps are checked; NULL: they are an unchecked claim */
    const struct rp_challenge *challenge; /* --challenge: the one that the run must answer; NULL: any */
    /* what is trained again */
    struct rp_replay_opts replay;    /* replay.steps 0: no replay */
    const struct rp_challenge *draw; /* --draw: draws the parts of the replay; NULL: replay.first and replay.steps do */
    int draws; /* --draws: how many parts; 0: RP_DRAWS. With several, replay.init is a directory */

    struct rp_verified *keep; /* NULL, or zeroed: filled where rp_verdict_shows() */
};

/* What clocks other than the signer's say: all samples of the run were computed between two moments. */
struct rp_timed {
    int64_t not_before_ns, not_after_ns; /* since 1970; 0: unknown */
    int64_t samples;                     /* of all steps, warm-up included */
    double seconds, rate;                /* 0: not bounded; samples a second, at least */
    int claimed;                         /* the earlier moment is a public value whose signature was not checked */
    char before_by[320], after_by[120];  /* by whom, in words */
};

#define RP_OBJECT_LIST "verify/answer.def"
#include "base/object_structs.inc.h"

#define RP_CHALLENGER 160
struct rp_verification {
    struct rp_check_result check[RP_CHECK_COUNT];
    enum rp_verdict verdict;
    char why[512]; /* of OTHER_VERSION and INCONCLUSIVE, and of FAILED the first failure; or "" */

    /* ---- the bundle and its signer ---- */
    char bundle[256];                      /* the name of its file */
    char statement[65];                    /* SHA-256 of statement.dsse.json, which identifies the bundle; "": none */
    char fingerprint[RP_FINGERPRINT_SIZE]; /* of the key that signed; "" before that is known */
    enum rp_standing standing;             /* of that key */
    char signer[128];                      /* its name in the trust store, or "" */
    struct rp_run_documents *run; /* facts.json and run.json once digests and schema passed, else NULL */
    struct rp_verified_place {
        int64_t ranks, nodes, devices; /* GPUs, or threads of processors */
        int64_t machines;              /* that the nodes are, by their captures */
        char text[RP_PLACE_TEXT]; /* rp_run_place_text(), and how many machines where fewer than nodes; "": unknown */
    } place; /* where it ran, by the signer's account */

    /* ---- what others signed; lists and parts are NULL where there is none ---- */
    struct rp_countersigned_list *signatures; /* countersignatures; NULL before they were read */
    struct rp_timestamped_list *timestamps;
    int64_t stamped_ns; /* since 1970: it existed by then, accuracy included, by an authority of --tsa-ca; 0: unknown */
    struct rp_attempts_answer *ledger; /* NULL if --ledger was not given, or does not have the run */
    /* of this bundle and of another one of its key that was verified here: {"positions", "heads", "statements": [this,
     * other], "seen_at"}, where one ledger cannot have both, positions and heads null where one of them is in none */
    json_t *forked;

    /* ---- what was trained again ---- */
    json_t *replay;                /* rp_replay_json() */
    int64_t replay_from, replayed; /* how many steps were replayed with equal bits, and the first of them */
    int64_t micros, of_micros;     /* --replay-micro: micro-batches of step replay_from with equal losses; all of it */
    int64_t keyed;                 /* keyed roots of a replication that were recomputed, after a step */
    int64_t parts, replayed_parts; /* --draw: of the run, and of those the replayed ones */
    int drawn;                     /* by a challenge (--draw) made after the bundle came */
    char drawn_by[RP_CHALLENGER];  /* whose challenge that is, in words */
    double undetected;             /* --draw: how likely it misses a run that skipped half of its steps */
    double needed;        /* least share of an untrained step's products in a step from a state that was handed over */
    int from_file;        /* the run starts from a file, whose weights may be anything */
    double repeated;      /* share of samples that their step has twice, without dropout or crops */
    char own_setting[64]; /* a setting that no recipe of this program has: its key, or "recipe.yaml"; "": none */
    struct rp_timed timed;

    /* ---- compared with what was given ---- */
    struct rp_policy_list *policy;
    struct rp_scaling_answer *scaling; /* against --baseline */
    int original;                      /* the run of --original was verified and compared with this one again */
    int64_t original_steps;            /* that the original trained */
};

/* 0: verified, also by an unknown key, and a run that did not reach its end. -1: *err has the code and message of the
 * first failed check, or of what the verdict says. *v is always filled. */
int rp_verify(struct rp_verification *v, const char *path, const struct rp_verify_opts *o,
              struct rp_err *err) rp_must_check;
/* 0 where the verdict is VERIFIED; -1 and *err for one of those that rp_verify() accepts: what `verify` ends with. */
int rp_verdict_accepts(const struct rp_verification *v, struct rp_err *err) rp_must_check;
void rp_verification_fini(struct rp_verification *v);
#define RP_VERIFICATION __attribute__((cleanup(rp_verification_fini))) struct rp_verification
/* The role of the first valid countersignature by that key; NULL: none. */
const char *rp_countersign_role(const struct rp_verification *v, const char *fingerprint);

/* The text of a row of `signatures`; whether its role is only what the signer says, which it is of an author, and of a
 * replicator unless the replication was given (--replication) and a keyed root of it was recomputed. */
void rp_countersign_text(struct rp_buf *out, const struct rp_countersigned_answer *row);
int rp_countersign_says(const struct rp_countersigned_answer *row);
json_t *rp_countersigned_json(const struct rp_verification *v); /* the list; NULL before they were read */

/* The document of `verify --json`, without its schema: cli/outputs.def has its keys, and levels.h those of "levels". */
json_t *rp_verification_json(const struct rp_verification *v);
/* The document as text: the verdict in the first line; then the checks that failed, warn, have a remark or were
 * requested, or with `all` every one; then figures, signatures and levels. name: before the verdict, of one of several
 * bundles; NULL: none. width: of the lines, 0 for unlimited. */
void rp_verification_text(struct rp_buf *out, enum rp_fill as, const json_t *document, const char *name, int all,
                          int width);
/* The summary, which is the first line of the text. */
void rp_verification_line(struct rp_buf *out, const struct rp_verification *v);
