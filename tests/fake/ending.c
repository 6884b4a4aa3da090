/* A library that is preloaded into repro-gpu and, as tools do that watch a process, writes at its end: "NAME ended with
 * status N", appended to the file $PLAY_ENDING. A process that is killed writes nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void note_end(int status, void *nothing)
{
    FILE *f = fopen(getenv("PLAY_ENDING"), "a");
    (void)nothing;
    if (f)
        fprintf(f, "%s ended with status %d\n", program_invocation_short_name, status);
    if (f)
        fclose(f);
}

__attribute__((constructor)) static void watch_end(void)
{
    if (getenv("PLAY_ENDING"))
        on_exit(note_end, NULL);
}
