// Makes system calls on files fail with EIO, also those of LMDB and DuckDB, which --fault-at does
// not reach. The dynamic linker loads it before libc (LD_PRELOAD).
//
//   WEIR_TEST_EIO   "OPERATION PATTERN FILE": while FILE exists, each call of OPERATION (read,
//                   write or sync) on a file whose path matches the regular expression PATTERN
//                   fails with EIO. `;` separates several.
#include <dlfcn.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

namespace {

const char* const kVariable = "WEIR_TEST_EIO";

struct Fault {
  std::string operation;
  std::regex path;
  std::string file;
};

std::vector<Fault> readFaults() {
  std::vector<Fault> faults;
  const char* given = getenv(kVariable);
  std::istringstream all(given == nullptr ? "" : given);
  std::string one;
  while (std::getline(all, one, ';')) {
    std::istringstream words(one);
    Fault fault;
    std::string pattern;
    if (!(words >> fault.operation >> pattern >> fault.file)) continue;
    fault.path = std::regex(pattern);
    faults.push_back(fault);
  }
  return faults;
}

bool fails(const char* operation, int fd) {
  static const std::vector<Fault> faults = readFaults();
  static thread_local bool isInside = false;
  if (isInside || faults.empty()) return false;
  isInside = true;
  const int before = errno;
  bool isFailing = false;
  for (const Fault& fault : faults) {
    if (fault.operation != operation || access(fault.file.c_str(), F_OK) != 0) continue;
    char path[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t bytes = readlink(link.c_str(), path, sizeof(path));
    if (bytes > 0 && std::regex_search(std::string(path, bytes), fault.path)) isFailing = true;
  }
  isInside = false;
  errno = isFailing ? EIO : before;
  return isFailing;
}

template <typename Call>
Call real(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define CALL(operation, result, name, parameters, arguments)           \
  extern "C" result name parameters {                                  \
    static const auto call = real<result(*) parameters>(#name);        \
    return fails(operation, fd) ? -1 : call arguments;                 \
  }

using Vectors = const struct iovec*;

CALL("read", ssize_t, read, (int fd, void* into, size_t bytes), (fd, into, bytes))
CALL("read", ssize_t, pread, (int fd, void* into, size_t bytes, off_t at), (fd, into, bytes, at))
CALL("read", ssize_t, pread64, (int fd, void* into, size_t bytes, off_t at), (fd, into, bytes, at))
CALL("read", ssize_t, readv, (int fd, Vectors into, int count), (fd, into, count))
CALL("read", ssize_t, preadv, (int fd, Vectors into, int count, off_t at), (fd, into, count, at))
CALL("read", ssize_t, preadv64, (int fd, Vectors into, int count, off_t at), (fd, into, count, at))
CALL("write", ssize_t, write, (int fd, const void* from, size_t bytes), (fd, from, bytes))
CALL("write", ssize_t, pwrite, (int fd, const void* from, size_t bytes, off_t at), (fd, from, bytes, at))
CALL("write", ssize_t, pwrite64, (int fd, const void* from, size_t bytes, off_t at), (fd, from, bytes, at))
CALL("write", ssize_t, writev, (int fd, Vectors from, int count), (fd, from, count))
CALL("write", ssize_t, pwritev, (int fd, Vectors from, int count, off_t at), (fd, from, count, at))
CALL("write", ssize_t, pwritev64, (int fd, Vectors from, int count, off_t at), (fd, from, count, at))
CALL("sync", int, fsync, (int fd), (fd))
CALL("sync", int, fdatasync, (int fd), (fd))

// The query process gets a small environment. This one goes with it.
static const std::string preload = getenv("LD_PRELOAD") == nullptr ? "" : getenv("LD_PRELOAD");
static const std::string spec = getenv(kVariable) == nullptr ? "" : getenv(kVariable);

extern "C" int execvp(const char* file, char* const arguments[]) {
  static const auto call = real<int (*)(const char*, char* const[])>("execvp");
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv(kVariable, spec.c_str(), 1);
  return call(file, arguments);
}
