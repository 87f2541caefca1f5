#include "train/reserve.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"

/* Beyond that limit a signal would end the process. */
static bool may_be_so_large(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

void lsi_reserve_space(lsi_reserve *reserve, const char *folder, uint64_t bytes)
{
    if (!may_be_so_large(bytes))
        return;
    const int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (fallocate(fd, 0, 0, (off_t)bytes) == 0)
        *reserve = (lsi_reserve){true, fd};
    else
        close(fd);
}

/* A child may have the open file, too. */
void lsi_reserve_drop(lsi_reserve *reserve)
{
    if (!reserve->held)
        return;
    if (ftruncate(reserve->fd, 0) != 0)
        lsi_log(LS_LOG_DEBUG,
                "cannot release the disk space reserved for the model");
    close(reserve->fd);
    *reserve = (lsi_reserve){0};
}
