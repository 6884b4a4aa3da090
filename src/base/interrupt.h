/* Ctrl-C: the first SIGINT, SIGTERM or SIGHUP requests an orderly end, the second ends the process at once. A SIGHUP
 * that was ignored when the program started (nohup) stays ignored, here and in its children.
 *
 * Flow:    rp_interrupt_catch() once; loops over files, waits for children and the supervisor of a worker call
 *          rp_interrupted().
 * Extend:  a loop that can take longer than a second calls rp_interrupted() and fails with RP_INTERRUPTED.
 */
#pragma once

#include <stdint.h>

void rp_interrupt_catch(void);
void rp_interrupt_release(void); /* in a child: what is caught has its default again, except SIGINT */
/* Has a signal arrived, and rp_interrupt_settle() not been called? 0 in programs that do not catch signals. */
int rp_interrupted(void);
/* The rest is short and must be completed: the first signal has no further effect, the second still ends the process at
 * once. */
void rp_interrupt_settle(void);
/* What rp_interrupt_settle() began is complete, and more follows: a signal that arrived since counts. */
void rp_interrupt_resume(void);
/* In a handler: whether a signal follows the one before, at *last_ns (0 at first), too soon for a second Ctrl-C.
 * `timeout` and launchers send one to a process and to its group. */
int rp_interrupt_is_echo(volatile uint64_t *last_ns);
