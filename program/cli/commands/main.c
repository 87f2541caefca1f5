/*
 * The program: lockstep COMMAND ...
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/program.h"
#include "cli/frame/command.h"
#include "observe/crash.h"

/* So that no file we open becomes a standard stream of somebody. */
static void open_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    open_standard_streams();
    lsi_program_start(argv[0]);
    lsi_watch_crashes();
    int status = lsi_cli_dispatch(argc, argv);
    /* A command that has failed has said why. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0) {
        fputs("lockstep: cannot write to standard output\n", stderr);
        status = LSI_EXIT_ERROR;
    }
    return status;
}
