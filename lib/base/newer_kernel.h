/*
 * Calls of newer kernels, for system headers that are older than the kernel.
 * The library must not depend on where it was built. Older kernels refuse these
 * calls.
 */
#ifndef LS_BASE_NEWER_KERNEL_H
#define LS_BASE_NEWER_KERNEL_H

#include <linux/futex.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MADV_COLLAPSE
#    define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#ifndef FUTEX_WAITV_MAX /* Linux 5.16 */
#    define FUTEX_32 2
struct futex_waitv {
    uint64_t val;
    uint64_t uaddr;
    uint32_t flags;
    uint32_t reserved;
};
#endif
#ifndef SYS_futex_waitv
#    define SYS_futex_waitv 449 /* on x86-64 and on aarch64 */
#endif

#endif
