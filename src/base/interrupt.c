#include "base/interrupt.h"

#include "base/err.h"

#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t signals, settled;

static void on_signal(int sig)
{
    (void)sig;
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
