/* The tables of commands and of sections of the help, from commands.def. */
#include "cli/cli.h"

#define SECTION(name, title)
#define COMMAND(name) extern const struct rp_command rp_cmd_##name;
#include "cli/commands.def"
#undef COMMAND

const struct rp_command *const rp_commands[] = {
#define COMMAND(name) &rp_cmd_##name,
#include "cli/commands.def"
#undef COMMAND
#undef SECTION
    NULL,
};

const struct rp_command_section rp_command_sections[] = {
#define COMMAND(name)
#define SECTION(name, title) {&rp_cmd_##name, title},
#include "cli/commands.def"
#undef COMMAND
#undef SECTION
    {NULL, NULL},
};
