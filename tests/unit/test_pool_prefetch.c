/* The thread that makes the next step's input: what is asked for is what comes, once, whatever was made in advance. */
#include "tests/unit/tap.h"
#include "train/prefetch.h"

#include <stdlib.h>
#include <time.h>

struct input {
    int64_t made; /* the step that `value` belongs to */
    int64_t value, fails;
    long calls, sleep_us;
    int varies;
};

static int prepare(void *arg, int64_t step, struct rp_err *err)
{
    struct input *in = arg;
    /* now late, now ready for long */
    struct timespec t = {0, (in->sleep_us + (in->varies ? step % 7 * 20 : 0)) * 1000};
    in->calls++;
    nanosleep(&t, NULL);
    if (step == in->fails)
        return rp_fail(err, RP_MALFORMED, "step %lld is malformed", (long long)step);
    in->made = step;
    in->value = step * step;
    return 0;
}

static struct rp_prefetch *start(struct input *in)
{
    struct rp_err err;
    struct rp_prefetch *p = rp_prefetch_new(prepare, in, &err);
    CHECK(p != NULL, "%s", err.msg);
    return p;
}

TEST(steps_in_order_are_made_once)
{
    struct input in = {.fails = -1, .varies = 1};
    struct rp_err err;
    struct rp_prefetch *p = start(&in);
    for (int64_t step = 0; p && step < 200; step++) {
        CHECK(rp_prefetch_take(p, step, &err) == 0 && in.made == step && in.value == step * step, "step %lld",
              (long long)step);
        rp_prefetch_start(p, step + 1);
        struct timespec t = {0, step % 5 * 40000};
        nanosleep(&t, NULL);
    }
    rp_prefetch_free(p);
    CHECK(in.calls == 200 || in.calls == 201, "%ld calls", in.calls); /* the last may not have been begun */
}

TEST(another_step_than_the_next_is_made_by_the_caller)
{
    struct input in = {.fails = -1, .sleep_us = 500};
    struct rp_err err;
    struct rp_prefetch *p = start(&in);
    CHECK(p && rp_prefetch_take(p, 7, &err) == 0 && in.made == 7);
    if (p)
        rp_prefetch_start(p, 8);
    CHECK(p && rp_prefetch_take(p, 3, &err) == 0 && in.made == 3 && in.value == 9);
    CHECK(p && rp_prefetch_take(p, 4, &err) == 0 && in.made == 4 && in.calls == 4, "%ld", in.calls);
    rp_prefetch_free(p);
}

TEST(a_failure_is_told_when_its_step_has_come)
{
    struct input in = {.fails = 2};
    struct rp_err err = {0};
    struct rp_prefetch *p = start(&in);
    CHECK(p && rp_prefetch_take(p, 1, &err) == 0);
    if (p)
        rp_prefetch_start(p, 2);
    CHECK(p && rp_prefetch_take(p, 2, &err) < 0 && err.code == RP_MALFORMED);
    CHECK_STR(err.msg, "step 2 is malformed");
    CHECK(p && rp_prefetch_take(p, 3, &err) == 0 && in.made == 3);
    rp_prefetch_free(p);
}

TEST(it_may_be_freed_while_it_works)
{
    for (int i = 0; i < 20; i++) {
        struct input in = {.fails = -1, .sleep_us = i % 3 * 300};
        struct rp_prefetch *p = start(&in);
        if (p)
            rp_prefetch_start(p, i);
        rp_prefetch_free(p);
    }
    rp_prefetch_free(NULL);
}
