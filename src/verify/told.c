/* What a check says to somebody else: of the same bundle, by the same program, to a reader with other keys and files. Most checks say the
 * same to everybody. The others say what is made again here, with nothing asked of them, or something that cannot be told from here. */
#include "sign/trust.h"
#include "verify/state.h"

#include <stdio.h>
#include <string.h>

static int alike(const struct rp_check_result *a, const struct rp_check_result *b)
{
    return a->state == b->state && strcmp(rp_check_found(a), rp_check_found(b)) == 0;
}

const char *rp_check_found(const struct rp_check_result *r)
{
    return *r->text ? r->text : r->proves;
}

/* ---- made again ---- */

typedef int check_fn(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err);

/* The same from a run that was given these options, of which `ledger` and `original` are only looked at, never opened. */
static int same_with(const struct rp_check_result *is, check_fn *check, const struct rp_verify_opts *o, const struct rp_verification *v,
                     const struct rp_verified *kept)
{
    struct rp_verification not_replayed = *v;
    struct rp_check_result again = {.proves = is->proves, .state = RP_CHECK_PASSED};
    struct rp_err err;
    not_replayed.replay_from = not_replayed.replayed = 0;
    struct rp_verify_state s = {.o = o, .v = &not_replayed, .run = v->run, .before = kept->before, .after = kept->after,
                                .records = kept->records, .samples = kept->samples, .recipe = kept->recipe, .fd = -1};
    return check(&s, &again, &err) == 0 && alike(is, &again);
}

/* With the ledger it says what is found here. Without one, or where the run names no place in any, what follows from run.json. */
static int same_ledger(const struct rp_verification *said, const struct rp_verification *here, const struct rp_verified *kept)
{
    static const struct rp_verify_opts none = {0}, given = {.ledger = ""};
    const struct rp_check_result *is = &said->check[RP_CHECK_ledger];
    const json_t *place = json_object_get(here->run, "ledger");
    if (said->ledger)
        return 0;
    return same_with(is, rp_check_ledger, &none, here, kept) ||
           ((!place || json_object_get(place, "reason")) && same_with(is, rp_check_ledger, &given, here, kept));
}

/* A copy may carry fewer of the counter-signatures. */
static int same_container(const struct rp_verification *said, const struct rp_verification *here, const struct rp_verified *kept)
{
    static const char *const endings[] = {"dsse.json", "pem"};
    struct rp_check_result again = {.proves = here->check[RP_CHECK_container].proves, .state = RP_CHECK_PASSED};
    size_t i, k, total = 0;
    int members = kept->bundle.n;
    json_t *mine, *one;
    for (int m = 0; m < kept->bundle.n; m++)
        total += rp_member_size(&kept->bundle.member[m]);
    json_array_foreach(here->signatures, i, mine) {
        int carried = 0;
        json_array_foreach(said->signatures, k, one)
            carried |= json_equal(json_object_get(one, "number"), json_object_get(mine, "number"));
        for (size_t e = 0; e < 2 && !carried; e++) {
            char name[64];
            snprintf(name, sizeof name, "signatures/%d.%s", (int)json_integer_value(json_object_get(mine, "number")), endings[e]);
            total -= rp_member_size(rp_bundle_find(&kept->bundle, name));
            members--;
        }
    }
    rp_container_found(&again, members, total);
    return alike(&said->check[RP_CHECK_container], &again);
}

/* ---- the key ---- */

static int says(const struct rp_check_result *r, enum rp_check_state state, const char *text)
{
    return r->state == state && strcmp(r->text, text) == 0;
}

/* In the form of a date: another store may believe the key until another day. */
static int is_until(const char *text)
{
    static const char form[] = " until 0000-00-00";
    size_t i = 0;
    for (; form[i] && text[i]; i++)
        if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return 0;
    return form[i] == text[i];
}

/* " until 2027-06-30" or nothing, for ever: not longer than the reader's own store believes it. */
static int no_longer(const struct rp_verification *here, const char *text)
{
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE];
    struct rp_err unread;
    if (rp_trust_find(here->fingerprint, name, until, &unread) <= 0)
        return 0;
    if (!*until)
        return !*text || is_until(text);
    return is_until(text) && strcmp(text + strlen(" until "), until) <= 0;
}

/* Of a key that is known here, by the name that it has here. */
static int same_key(const struct rp_check_result *is, const struct rp_verification *here)
{
    struct rp_check_result named = {.state = RP_CHECK_PASSED};
    size_t i, n;
    json_t *row;
    if (says(is, RP_CHECK_NOTE, RP_KEY_UNKNOWN))
        return 1;
    if (here->check[RP_CHECK_key].state != RP_CHECK_PASSED)
        return 0;
    if (says(is, RP_CHECK_PASSED, RP_KEY_NAMED))
        return 1;
    if (!*here->signer || is->state != RP_CHECK_PASSED)
        return 0;
    json_array_foreach(here->signatures, i, row) {
        rp_check_say(&named, RP_KEY_OF_ROLE, json_string_value(json_object_get(row, "role")), here->signer);
        if (alike(is, &named))
            return 1;
    }
    rp_check_say(&named, RP_KEY_IN_STORE, here->signer);
    n = strlen(named.text);
    return strncmp(is->text, named.text, n) == 0 && no_longer(here, is->text + n);
}

/* ---- all of them ---- */

enum rp_told rp_check_told(int id, const struct rp_verification *said, const struct rp_verification *here, const struct rp_verified *kept)
{
    const struct rp_verify_opts none = {0}, as_said = {.ledger = said->ledger ? "" : NULL, .original = said->original ? "" : NULL};
    const struct rp_check_result *is = &said->check[id];
    struct rp_check_result signatures = {.proves = is->proves, .state = RP_CHECK_PASSED};
    check_fn *unasked = id == RP_CHECK_scaling     ? rp_check_scaling
                        : id == RP_CHECK_agreement ? rp_check_agreement
                        : id == RP_CHECK_replay    ? rp_check_replay
                        : id == RP_CHECK_policy    ? rp_check_policy
                        : id == RP_CHECK_claims    ? rp_check_claims
                                                   : NULL;
    if (alike(is, &here->check[id]))
        return RP_TOLD_SAME;
    if (unasked && same_with(is, unasked, id == RP_CHECK_claims ? &as_said : &none, here, kept))
        return RP_TOLD_LESS;
    switch (id) {
    case RP_CHECK_container:
        return same_container(said, here, kept) ? RP_TOLD_LESS : RP_TOLD_NEVER;
    case RP_CHECK_signatures:
        rp_signatures_found(&signatures, said->signatures);
        return alike(is, &signatures) ? RP_TOLD_LESS : RP_TOLD_NEVER;
    case RP_CHECK_key:
        return same_key(is, here) ? RP_TOLD_LESS : is->state == RP_CHECK_PASSED ? RP_TOLD_NEVER : RP_TOLD_UNSURE;
    case RP_CHECK_ledger:
        return same_ledger(said, here, kept) ? RP_TOLD_LESS : RP_TOLD_NEVER;
    case RP_CHECK_scaling:
    case RP_CHECK_replay:
    case RP_CHECK_policy:
    case RP_CHECK_claims:
        return RP_TOLD_UNSURE;
    default:
        return RP_TOLD_NEVER;
    }
}
