#include "base/interrupt.h"

#include "base/clock.h"
#include "base/err.h"

#include <signal.h>
#include <unistd.h>

#define ECHO_NS 50000000 /* a person needs longer for the next one */

static volatile sig_atomic_t signals, settled;
static volatile uint64_t last;

int rp_interrupt_is_echo(volatile uint64_t *last_ns)
{
    const uint64_t before = *last_ns, now = rp_now_ns();
    *last_ns = now;
    return before && now - before < ECHO_NS;
}

static void on_signal(int sig)
{
    (void)sig;
    if (rp_interrupt_is_echo(&last))
        return;
    if (++signals >= 2)
        _exit(rp_exit_status(RP_INTERRUPTED)); /* the kernel kills the children with us (PR_SET_PDEATHSIG) */
}

static int ignores_hangup(void)
{
    struct sigaction a;
    return sigaction(SIGHUP, NULL, &a) == 0 && a.sa_handler == SIG_IGN;
}

void rp_interrupt_catch(void)
{
    struct sigaction a = {.sa_handler = on_signal};
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    if (!ignores_hangup())
        sigaction(SIGHUP, &a, NULL);
}

void rp_interrupt_release(void)
{
    signal(SIGTERM, SIG_DFL);
    if (!ignores_hangup())
        signal(SIGHUP, SIG_DFL);
}

int rp_interrupted(void)
{
    return signals > 0 && !settled;
}

void rp_interrupt_settle(void)
{
    settled = 1;
}

void rp_interrupt_resume(void)
{
    settled = 0;
}
