/* Entry point: the training worker when re-executed as one, a process of a job that ssh started, else the command
 * line. */
#include "base/json_memory.h"
#include "cli/cli.h"
#include "cli/host_process.h"
#include "launch/ssh.h"
#include "worker/worker.h"

#include <string.h>

int main(int argc, char **argv)
{
#ifndef __GLIBC__ /* glibc has free lists per thread, and leak checkers know its blocks */
    rp_json_memory();
#endif
    if (argc == 2 && strcmp(argv[1], RP_WORKER_ARG) == 0)
        return rp_worker_main(RP_PROCESS_FD);
    if (argc > 1 && strcmp(argv[1], RP_HOST_PROCESS_ARG) == 0)
        return rp_host_process_main(argc, argv);
    return rp_cli_main(argc, argv);
}
