/* Attacks: what somebody does to a bundle, by name, which check has to see it first and with which exit status.
 *
 * What:    the verdict on one file, held against a row of a table.
 * Flow:    rows of test_attacks_*.c: a bundle made wrong on purpose at fx_path("attack") -> rp_verify() -> attack_expect().
 * Owner:   the caller's.
 * Extend:  an attack is a row with a name of its own in the file of its kind: form (container), seal (signature, statement), content.
 */
#ifndef REPRO_TESTS_ATTACK_H
#define REPRO_TESTS_ATTACK_H

#include "tests/unit/verify_fixture.h"

/* Nothing in the bundle is wrong: only who signed it tells it from an honest one. */
#define KEY_ALONE RP_CHECK_COUNT, 0

static __attribute__((unused)) void attack_expect(const char *name, const char *trust, enum rp_check_id check, int status)
{
    struct rp_verification v;
    struct rp_verify_opts o = {.trust = trust};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("attack");
    int rc = rp_verify(&v, path, &o, &err), first = 0;
    while (first < RP_CHECK_COUNT && v.check[first].state != RP_CHECK_FAILED)
        first++;
    CHECK(first == (int)check, "%s: seen by '%s', not by '%s': %s", name, first < RP_CHECK_COUNT ? rp_check_name(first) : "nothing",
          check < RP_CHECK_COUNT ? rp_check_name((int)check) : "nothing", err.msg);
    CHECK((rc < 0 ? rp_exit_status(err.code) : 0) == status, "%s: status %d, not %d: %s", name, rc < 0 ? rp_exit_status(err.code) : 0, status,
          err.msg);
    CHECK(v.verdict == (status ? RP_VERDICT_FAILED : RP_VERDICT_UNKNOWN_KEY), "%s: %s", name, rp_verdict_text(v.verdict));
    RP_BUF text = {0};
    rp_verification_text(&text, &v, 0);
    CHECK(!strpbrk(err.msg, "\n\033") && !strchr(text.data, 033), "%s: a terminal obeys the message", name);
    rp_verification_fini(&v);
}

static __attribute__((unused)) void attack_write(const struct rp_buf *file)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("attack");
    CHECK(rp_write_file(path, rp_buf_text(file), file->size, 0644, &err) == 0, "%s", err.msg);
}

#endif
