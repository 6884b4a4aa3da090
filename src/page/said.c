/* The verdict, the table of checks, the ledger, the first run and who is trusted are of whoever made the page. They are read from the page,
 * and the page is made again from them, byte for byte: so nothing can hide or paint over what was compared. They may be less than ours,
 * never more. */
#include "page/said.h"

#include "base/text.h"
#include "page/section.h"
#include "sign/trust.h"

#include <stdio.h>
#include <string.h>

#define REMEDY "give verify what the page's maker gave, such as "
#define NO_LEDGER_HERE "the page says where the run stands in its signer's ledger, here that was not looked up; " REMEDY "--ledger"

/* ---- sections ---- */

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

/* The signature here that a row of the page shows, as that row shows it. */
static json_t *signature(const struct rp_verification *here, struct rp_span row, struct rp_err *err)
{
    char role[32], print[RP_FINGERPRINT_SIZE], name[RP_TRUST_NAME] = "", shown[72];
    struct rp_span trust = rp_span_between(row, "<td class=\"trust\">", "</td>"),
        called = rp_span_between(trust, "yes, as <bdi>", "</bdi>");
    size_t i;
    json_t *mine;
    if (rp_span_text(role, sizeof role, rp_span_between(row, ">", "</data>")) < 0 ||
        rp_span_text(print, sizeof print, rp_span_between(row, "<code>", "</code>")) < 0 ||
        (called.at && rp_span_text(name, sizeof name, called) < 0)) {
        rp_fail(err, RP_MISMATCH, "the page was changed: it shows a signature in a form that this program does not write");
        return NULL;
    }
    json_array_foreach(here->signatures, i, mine) {
        if (strcmp(text_of(mine, "fingerprint"), print) != 0 || strcmp(text_of(mine, "role"), role) != 0)
            continue;
        json_t *row_said = json_copy(mine);
        json_object_set_new(row_said, "trusted", json_boolean(called.at != NULL));
        json_object_set_new(row_said, "name", json_string(name));
        return row_said;
    }
    rp_fail(err, RP_MISMATCH, "the page shows a signature as %s that this bundle does not carry; it may be of a copy with more signatures",
            rp_shown(shown, role));
    return NULL;
}

static int read_signatures(struct rp_verification *said, const struct rp_verification *here, struct rp_span section, struct rp_err *err)
{
    json_int_t last = -1;
    said->signatures = json_array();
    for (size_t i = 0; i <= json_array_size(here->signatures); i++) {
        char mark[64];
        snprintf(mark, sizeof mark, " data-src=\"" RP_OF_SIGNATURES "#/%zu/role\"", i);
        struct rp_span row = rp_span_find(section, mark), end = rp_span_find(row, "</tr>");
        if (!row.at)
            return 0;
        row.n -= end.n;
        section = rp_span_behind(section, row);
        json_t *one = signature(here, row, err);
        if (!one)
            return -1;
        json_int_t number = json_integer_value(json_object_get(one, "number"));
        json_array_append_new(said->signatures, one);
        if (number <= last)
            return rp_fail(err, RP_MISMATCH, "the page was changed: it shows a signature twice, or not in the order of the bundle");
        last = number;
    }
    return 0;
}

int rp_said_section(struct rp_verification *said, const struct rp_verification *here, struct rp_span section, struct rp_err *err)
{
    *said = *here;
    said->signatures = NULL;
    if (!rp_span_find(section, " data-src=\"" RP_OF_LEDGER "#/").at)
        said->ledger = NULL;
    else if (!here->ledger)
        return rp_fail(err, RP_MISMATCH, NO_LEDGER_HERE);
    said->original = rp_span_find(section, "</code>. " RP_STANDING_ORIGINAL).at != NULL;
    if (said->original && !here->original)
        return rp_fail(err, RP_MISMATCH, "the page says that the run it repeats was verified, here it was not; " REMEDY "--original");
    return read_signatures(said, here, section, err);
}

int rp_said_head(struct rp_verification *said, const struct rp_verification *here, struct rp_span head, struct rp_err *err)
{
    size_t i;
    json_t *mine;
    *said = *here;
    said->signatures = json_array();
    json_array_foreach(here->signatures, i, mine) {
        RP_BUF line = {0};
        json_t *one = json_copy(mine);
        rp_page_signature_line(&line, one);
        rp_buf_puts(&line, RP_STANDING_TRUSTED "\n");
        int trusted = rp_span_find(head, rp_buf_text(&line)).at != NULL;
        line.size -= strlen(RP_STANDING_TRUSTED "\n");
        line.data[line.size] = 0;
        json_object_set_new(one, "trusted", json_boolean(trusted));
        if (rp_span_find(head, rp_buf_text(&line)).at)
            json_array_append(said->signatures, one);
        json_decref(one);
    }
    if (!rp_span_find(head, RP_STANDING_ATTEMPT).at)
        said->ledger = NULL;
    else if (!here->ledger)
        return rp_fail(err, RP_MISMATCH, NO_LEDGER_HERE);
    return 0;
}

void rp_said_fini(struct rp_verification *said)
{
    json_decref(said->signatures);
    said->signatures = NULL;
}

/* ---- verdict and checks ---- */

/* The row of one check, and what is behind it. */
static int read_row(struct rp_check_result *r, struct rp_span *rest)
{
    struct rp_span row = rp_span_find(*rest, "<tr><td class=\"state "), state = rp_span_between(row, "\">", "</td>");
    struct rp_span text = rp_span_between(row, "</th><td>", "</td></tr>");
    if (!state.at || rp_span_text(r->text, sizeof r->text, text) < 0)
        return -1;
    *rest = rp_span_behind(*rest, text);
    for (int i = RP_CHECK_SKIPPED; i < RP_CHECK_FAILED; i++)
        if (strlen(rp_check_state_name(i)) == state.n && memcmp(rp_check_state_name(i), state.at, state.n) == 0) {
            r->state = i;
            return 0;
        }
    return -1;
}

int rp_said_header(struct rp_verification *said, struct rp_span page)
{
    struct rp_span header = rp_span_between(page, "<header>\n", "</header>\n"), verdict = rp_span_between(header, " data-verdict=\"", "\"");
    struct rp_span name = rp_span_between(header, " (<bdi>", "</bdi>");
    *said->signer = 0;
    if (verdict.n != 1 || *verdict.at <= '0' + RP_VERDICT_FAILED || *verdict.at > '0' + RP_VERDICT_UNDECIDED ||
        (name.at && rp_span_text(said->signer, sizeof said->signer, name) < 0))
        return -1;
    said->verdict = (enum rp_verdict)(*verdict.at - '0');
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        if (read_row(&said->check[i], &header) < 0)
            return -1;
    return 0;
}

int rp_said_row(struct rp_verification *said, struct rp_span row)
{
    char line[200];
    if (rp_span_text(line, sizeof line, rp_span_between(rp_span_find(row, "<b class=\"state"), "\">", "</b>")) < 0)
        return -1;
    for (int verdict = RP_VERDICT_FAILED + 1; verdict <= RP_VERDICT_UNDECIDED; verdict++) {
        RP_BUF again = {0};
        said->verdict = (enum rp_verdict)verdict;
        rp_verification_line(&again, said);
        if (strcmp(rp_buf_text(&again), line) == 0)
            return 0;
    }
    return -1;
}

/* Names are of whoever made the page: here nothing vouches for any other than the reader's own. */
static int no_better_names(const struct rp_verification *said, const struct rp_verification *here, struct rp_err *err)
{
    char name[72], mine_is[72];
    size_t i, k;
    json_t *one, *mine;
    if (*said->signer && !*here->signer)
        return rp_fail(err, RP_MISMATCH, "the page names '%s' as the signer, here the key has no name; add it with repro key trust",
                       rp_shown(name, said->signer));
    if (*said->signer && strcmp(said->signer, here->signer) != 0)
        return rp_fail(err, RP_MISMATCH, "the page names '%s' as the signer, in your trust store the key is '%s'; have it made again here",
                       rp_shown(name, said->signer), rp_shown(mine_is, here->signer));
    json_array_foreach(said->signatures, i, one)
        json_array_foreach(here->signatures, k, mine) {
            if (!json_is_true(json_object_get(one, "trusted")) ||
                !json_equal(json_object_get(one, "number"), json_object_get(mine, "number")))
                continue;
            if (!json_is_true(json_object_get(mine, "trusted")))
                return rp_fail(err, RP_MISMATCH, "the page's maker trusts who countersigned as %s, here that key is not known; add it with "
                                                 "repro key trust", text_of(mine, "role"));
            if (strcmp(text_of(one, "name"), text_of(mine, "name")) != 0)
                return rp_fail(err, RP_MISMATCH,
                               "the page names '%s' as who countersigned as %s, in your trust store it is '%s'; have it made again here",
                               rp_shown(name, text_of(one, "name")), text_of(mine, "role"), rp_shown(mine_is, text_of(mine, "name")));
        }
    return 0;
}

static const char *found(char out[72], const struct rp_check_result *r)
{
    return rp_shown(out, rp_check_found(r));
}

/* One check; RP_UNAVAILABLE: it says what cannot be told from here. */
static int no_better_check(int id, const struct rp_verification *said, const struct rp_verification *here, const struct rp_verified *kept,
                           struct rp_err *err)
{
    static const int states[] = {[RP_CHECK_WARNING] = 1, [RP_CHECK_SKIPPED] = 2, [RP_CHECK_NOTE] = 3, [RP_CHECK_PASSED] = 4};
    const struct rp_check_result *is = &said->check[id], *mine = &here->check[id];
    char a[72], b[72];
    enum rp_told told = rp_check_told(id, said, here, kept);
    if (told == RP_TOLD_SAME || told == RP_TOLD_LESS)
        return 0;
    if (states[is->state] > states[mine->state])
        return rp_fail(err, RP_MISMATCH, "the page says '%s' of the check %s, here it is '%s'; " REMEDY "--trust",
                       rp_check_state_name(is->state), rp_check_name(id), rp_check_state_name(mine->state));
    if (told == RP_TOLD_NEVER)
        return rp_fail(err, RP_MISMATCH, "the page was changed: of the check %s it says '%s: %s', here it is '%s: %s'", rp_check_name(id),
                       rp_check_state_name(is->state), found(a, is), rp_check_state_name(mine->state), found(b, mine));
    return rp_fail(err, RP_UNAVAILABLE, "%s", rp_check_name(id));
}

/* A page may say less than is found here. More would be believed because the page was checked, as would what cannot be checked. */
int rp_said_no_better(const struct rp_verification *said, const struct rp_verification *here, const struct rp_verified *kept,
                      struct rp_err *err)
{
    static const int verdicts[] = {[RP_VERDICT_UNDECIDED] = 1, [RP_VERDICT_UNKNOWN_KEY] = 2, [RP_VERDICT_VERIFIED] = 3};
    char shown[72];
    int first = -1;
    RP_BUF names = {0};
    if (verdicts[said->verdict] > verdicts[here->verdict])
        return rp_fail(err, RP_MISMATCH, "the page says '%s', here it is '%s'; " REMEDY "--trust", rp_verdict_text(said->verdict),
                       rp_verdict_text(here->verdict));
    if (no_better_names(said, here, err) < 0)
        return -1;
    for (int c = 0; kept && c < RP_CHECK_COUNT; c++) {
        if (no_better_check(c, said, here, kept, err) == 0)
            continue;
        if (err->code != RP_UNAVAILABLE)
            return -1;
        rp_buf_printf(&names, "%s%s", first < 0 ? "" : ", ", rp_check_name(c));
        first = first < 0 ? c : first;
    }
    if (first < 0)
        return 0;
    return rp_fail(err, RP_UNAVAILABLE,
                   "not decided: what the page says of %s, as '%s', is on its maker's word; have it made again here with repro report",
                   rp_buf_text(&names), found(shown, &said->check[first]));
}

/* ---- differences ---- */

static void other_signatures(struct rp_buf *out, const struct rp_verification *said, const struct rp_verification *here)
{
    size_t n = json_array_size(said->signatures), mine = json_array_size(here->signatures), fewer = 0;
    const char *role = "";
    if (n != mine) {
        rp_buf_printf(out, "; it shows %zu of the %zu signatures beside the author's", n, mine);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *a = json_array_get(said->signatures, i), *b = json_array_get(here->signatures, i);
        if (json_is_true(json_object_get(a, "trusted")) || !json_is_true(json_object_get(b, "trusted")))
            continue;
        role = text_of(b, "role");
        fewer++;
    }
    if (fewer == 1)
        rp_buf_printf(out, "; who signed as %s is not trusted there", role);
    else if (fewer)
        rp_buf_printf(out, "; %zu of those who signed besides are not trusted there", fewer);
}

static void other_checks(struct rp_buf *out, const struct rp_verification *said, const struct rp_verification *here, int whole)
{
    const char *before = "; of ";
    char is[72];
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const struct rp_check_result *a = &said->check[i], *b = &here->check[i];
        if (a->state == b->state && strcmp(rp_check_found(a), rp_check_found(b)) == 0)
            continue;
        rp_buf_printf(out, "%s%s", before, rp_check_name(i));
        if (whole)
            rp_buf_printf(out, " %s '%s'", rp_check_state_name(a->state), found(is, a));
        else
            before = ", ";
    }
}

/* What of the checks is shown whole where there is room, else by its name. */
void rp_said_differences(struct rp_buf *out, const struct rp_verification *said, const struct rp_verification *here, int checks)
{
    if (said->verdict != here->verdict)
        rp_buf_printf(out, "; its verdict is '%s', here '%s'", rp_verdict_text(said->verdict), rp_verdict_text(here->verdict));
    if (strcmp(said->signer, here->signer) != 0)
        rp_buf_puts(out, "; it does not name the signer");
    if (!said->ledger != !here->ledger)
        rp_buf_puts(out, "; it was made without the ledger");
    if (said->original != here->original)
        rp_buf_puts(out, "; it was made without the first run");
    other_signatures(out, said, here);
    RP_BUF whole = {0};
    if (checks)
        other_checks(&whole, said, here, 1);
    if (out->size + whole.size <= RP_SAID_ROOM)
        rp_buf_add(out, rp_buf_text(&whole), whole.size);
    else
        other_checks(out, said, here, 0);
}
