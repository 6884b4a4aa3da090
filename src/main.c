/* Entry point: a worker when re-executed as one, else the command line. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return rp_cli_main(argc, argv);
}
