/* What the start files of glibc before 2.34 added to every program: running its constructors, atexit(), and the functions of files' state,
 * which were no symbols of the library before 2.33. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void function(int argc, char **argv, char **envp);
extern function *__preinit_array_start[] __attribute__((visibility("hidden")));
extern function *__preinit_array_end[] __attribute__((visibility("hidden")));
extern function *__init_array_start[] __attribute__((visibility("hidden")));
extern function *__init_array_end[] __attribute__((visibility("hidden")));
extern void *__dso_handle __attribute__((visibility("hidden")));
extern int __cxa_atexit(void (*f)(void *), void *arg, void *dso);
void rp_gpu_init(int argc, char **argv, char **envp);
int atexit(void (*f)(void));

void rp_gpu_init(int argc, char **argv, char **envp)
{
    for (function **f = __preinit_array_start; f < __preinit_array_end; f++)
        (*f)(argc, argv, envp);
    for (function **f = __init_array_start; f < __init_array_end; f++)
        (*f)(argc, argv, envp);
}

/* The kernel's struct is the library's, on both machines. */
int stat(const char *path, struct stat *s)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, s, 0);
}

int lstat(const char *path, struct stat *s)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, s, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat *s)
{
    return (int)syscall(SYS_fstat, fd, s);
}

int atexit(void (*f)(void))
{
    return __cxa_atexit((void (*)(void *))f, 0, &__dso_handle);
}
