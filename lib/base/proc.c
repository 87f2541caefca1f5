#include "base/proc.h"

#include <fcntl.h>
#include <unistd.h>

ssize_t lsi_proc_read(const char *path, char *text, size_t room)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd < 0 ? -1 : read(fd, text, room - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return bytes;
}
