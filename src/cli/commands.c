#include "cli/cli.h"

#define COMMAND(name) extern const struct rp_command rp_cmd_##name;
#include "cli/commands.def"
#undef COMMAND

const struct rp_command *const rp_commands[] = {
#define COMMAND(name) &rp_cmd_##name,
#include "cli/commands.def"
#undef COMMAND
    NULL,
};
