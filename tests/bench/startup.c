/* How long a program takes from posix_spawn to its end, how much processor time and how much memory its largest
 * process: medians of several programs that take turns, maxima of memory.
 * usage: startup RUNS NAME=COMMAND...     COMMAND is split at spaces; its output goes to /dev/null. Prints one JSON
 *                                         object a program. */
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define MAX_PROGRAMS 16
#define MAX_WORDS 16

extern char **environ;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double ms_of(struct timeval t)
{
    return (double)t.tv_sec * 1e3 + (double)t.tv_usec * 1e-3;
}

static double run_once(char **argv, const posix_spawn_file_actions_t *quiet, double *cpu_ms, long *rss_kib)
{
    struct rusage used; /* of the program and of the processes it waited for */
    pid_t pid;
    int status;
    double start = now_ms();
    if (posix_spawnp(&pid, argv[0], quiet, NULL, argv, environ) != 0 || wait4(pid, &status, 0, &used) < 0 ||
        status != 0) {
        fprintf(stderr, "startup: '%s' cannot be run or fails\n", argv[0]);
        exit(1);
    }
    *cpu_ms = ms_of(used.ru_utime) + ms_of(used.ru_stime);
    *rss_kib = used.ru_maxrss > *rss_kib ? used.ru_maxrss : *rss_kib;
    return now_ms() - start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int runs = argc > 2 ? atoi(argv[1]) : 0, programs = argc - 2;
    char *words[MAX_PROGRAMS][MAX_WORDS + 1] = {0}, *name[MAX_PROGRAMS];
    double *ms[MAX_PROGRAMS], *cpu_ms[MAX_PROGRAMS];
    long rss_kib[MAX_PROGRAMS] = {0};
    posix_spawn_file_actions_t quiet;
    if (runs < 1 || programs > MAX_PROGRAMS) {
        fprintf(stderr, "usage: startup RUNS NAME=COMMAND...\n");
        return 2;
    }
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    for (int p = 0; p < programs; p++) {
        int n = 0;
        name[p] = strtok(argv[p + 2], "=");
        for (char *w = strtok(NULL, " "); w && n < MAX_WORDS; w = strtok(NULL, " "))
            words[p][n++] = w;
        ms[p] = malloc((size_t)runs * sizeof *ms[p]);
        cpu_ms[p] = malloc((size_t)runs * sizeof *cpu_ms[p]);
        run_once(words[p], &quiet, cpu_ms[p], &rss_kib[p]); /* warms the page cache */
    }
    for (int r = 0; r < runs; r++)
        for (int p = 0; p < programs; p++)
            ms[p][r] = run_once(words[p], &quiet, &cpu_ms[p][r], &rss_kib[p]);
    for (int p = 0; p < programs; p++) {
        qsort(ms[p], (size_t)runs, sizeof *ms[p], by_value);
        qsort(cpu_ms[p], (size_t)runs, sizeof *cpu_ms[p], by_value);
        printf("{\"who\": \"%s\", \"runs\": %d, \"median_ms\": %.3f, \"min_ms\": %.3f, \"max_ms\": %.3f, \"cpu_ms\": "
               "%.3f, \"rss_kib\": %ld}\n",
               name[p], runs, ms[p][runs / 2], ms[p][0], ms[p][runs - 1], cpu_ms[p][runs / 2], rss_kib[p]);
        free(ms[p]);
        free(cpu_ms[p]);
    }
    return 0;
}
