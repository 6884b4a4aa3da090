/* Ctrl-C: the first SIGINT, SIGTERM or SIGHUP asks for an orderly end, the second leaves at once.
 *
 * What:    a counter that the signal handler moves, and the question that everything slow asks.
 * Flow:    rp_interrupt_catch() once; loops over files, waits for children and the supervisor of a worker ask rp_interrupted().
 * Owner:   the process: one handler, no memory.
 * Extend:  a loop that can take longer than a second asks rp_interrupted() and fails with RP_INTERRUPTED.
 */
#ifndef RP_BASE_INTERRUPT_H
#define RP_BASE_INTERRUPT_H

void rp_interrupt_catch(void);
/* Asked to end, and not yet told (by rp_interrupt_settle()) that this is known? 0 in programs that never catch. */
int rp_interrupted(void);
/* What is left to do is short and has to be whole: the first signal stops nothing any more, the second still leaves at once. */
void rp_interrupt_settle(void);

#endif
