/* Linked into the programs of `make coverage`, with the linker's --wrap: a child that leaves by _exit() writes its
 * counters too, whatever limits a test gave it. */
#include <gcov.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
_Noreturn void __real__Exit(int status);
_Noreturn void __wrap__Exit(int status);

static void write_counters(void)
{
    static const int limits[] = {RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_AS};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit r;
        if (getrlimit(limits[i], &r) == 0) {
            r.rlim_cur = r.rlim_max;
            setrlimit(limits[i], &r);
        }
    }
    __gcov_dump();
}

_Noreturn void __wrap__exit(int status)
{
    write_counters();
    __real__exit(status);
}

_Noreturn void __wrap__Exit(int status)
{
    write_counters();
    __real__Exit(status);
}
