/* Entry point: the training worker when re-executed as one, else the command line. */
#include "cli/cli.h"
#include "worker/worker.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], RP_WORKER_ARG) == 0)
        return rp_worker_main(RP_PROCESS_FD);
    return rp_cli_main(argc, argv);
}
