// Makes one system call on files of a folder fail, or kills the process there; or makes one allocation fail.
// Preloaded; the test arms it with fault_arm after a fork.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kNothing, kKillBefore, kKillAfter, kNoSpace, kInputOutput, kShort, kNoMemory };

static char folder[PATH_MAX];
static int kind = kNothing;
static long left = -1;  // calls before the one that is hit
static long calls = 0;

void fault_arm(const char* where, int what, long at) {
  strncpy(folder, where, sizeof folder - 1);
  kind = what;
  left = at;
  calls = 0;
}
void fault_disarm(void) { kind = kNothing, folder[0] = 0; }
long fault_calls(void) { return calls; }

static int in_folder(const char* path) { return folder[0] && path && strncmp(path, folder, strlen(folder)) == 0; }
static int is_ours(int descriptor) {
  if (!folder[0]) return 0;
  char name[64], path[PATH_MAX];
  snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(name, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return in_folder(path);
}

// Whether this call is the one; kills where that is asked for.
static int hit(void) {
  ++calls;
  if (kind == kNothing || kind == kNoMemory || left-- != 0) return 0;
  if (kind == kKillBefore) kill(getpid(), SIGKILL);
  return 1;
}
static void after(int was_hit) {
  if (was_hit && kind == kKillAfter) kill(getpid(), SIGKILL);
}
static int fails(int was_hit) {
  if (!was_hit || (kind != kNoSpace && kind != kInputOutput)) return 0;
  errno = kind == kNoSpace ? ENOSPC : EIO;
  return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(result, name, ours, parameters, arguments) \
  result name parameters {                              \
    const int mine = (ours) ? hit() : 0;                \
    if (fails(mine)) return -1;                         \
    const result found = REAL(name) arguments;          \
    after(mine);                                        \
    return found;                                       \
  }

ssize_t write(int descriptor, const void* bytes, size_t count) {
  const int mine = is_ours(descriptor) ? hit() : 0;
  if (fails(mine)) return -1;
  if (mine && kind == kShort && count > 1) count /= 2;
  const ssize_t found = REAL(write)(descriptor, bytes, count);
  after(mine);
  return found;
}
WRAP(ssize_t, writev, is_ours(descriptor), (int descriptor, const struct iovec* parts, int count),
     (descriptor, parts, count))
WRAP(int, fsync, is_ours(descriptor), (int descriptor), (descriptor))
WRAP(int, fdatasync, is_ours(descriptor), (int descriptor), (descriptor))
WRAP(int, close, is_ours(descriptor), (int descriptor), (descriptor))
WRAP(int, rename, in_folder(to), (const char* from, const char* to), (from, to))
WRAP(int, renameat, in_folder(to), (int a, const char* from, int b, const char* to), (a, from, b, to))
WRAP(int, link, in_folder(to), (const char* from, const char* to), (from, to))
WRAP(int, linkat, in_folder(to), (int a, const char* from, int b, const char* to, int flags), (a, from, b, to, flags))
WRAP(int, unlink, in_folder(path), (const char* path), (path))
WRAP(int, unlinkat, in_folder(path), (int a, const char* path, int flags), (a, path, flags))
WRAP(int, chmod, in_folder(path), (const char* path, mode_t mode), (path, mode))
WRAP(int, fchmodat, in_folder(path), (int a, const char* path, mode_t mode, int flags), (a, path, mode, flags))

#define OPEN(name)                                                                \
  int name(const char* path, int flags, ...) {                                    \
    va_list rest;                                                                 \
    va_start(rest, flags);                                                        \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                 \
    const int mine = in_folder(path) ? hit() : 0;                                 \
    if (fails(mine)) return -1;                                                   \
    const int found = REAL(name)(path, flags, mode);                              \
    after(mine);                                                                  \
    return found;                                                                 \
  }
OPEN(open)
OPEN(open64)

// --- allocations: those of glibc, so that nothing is allocated to find them ---

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);

static int no_memory(void) {
  if (kind != kNoMemory) return 0;
  ++calls;
  if (left < 0 || left-- != 0) return 0;
  errno = ENOMEM;
  return 1;
}
void* malloc(size_t bytes) { return no_memory() ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return no_memory() ? NULL : __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) { return no_memory() ? NULL : __libc_realloc(old, bytes); }
