// Writes past the page cache (O_DIRECT), for files that are written once and read late.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "addon.h"
#include "typed_array.h"

namespace {

// No disk has larger blocks. O_DIRECT wants memory, position and length in whole blocks.
constexpr size_t block_bytes = 4096;
// Bytes that are copied and written at once.
constexpr size_t piece_bytes = 1024 * 1024;

// Aligned memory of this thread, allocated once, because a thread that writes segments writes many.
uint8_t* thread_piece() {
  struct Piece {
    void* data = nullptr;
    Piece() {
      if (posix_memalign(&data, block_bytes, piece_bytes) != 0) data = nullptr;
    }
    ~Piece() { std::free(data); }
  };
  static thread_local Piece piece;
  return static_cast<uint8_t*>(piece.data);
}

// Writes a whole piece at `position`. False where the file system took none of it or a part.
bool write_piece(int file, const uint8_t* piece, size_t bytes, size_t position) {
  ssize_t written;
  do written = pwrite(file, piece, bytes, static_cast<off_t>(position));
  while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(bytes);
}

// Writes whole blocks at the beginning of a file and returns their bytes.
size_t write_blocks(int file, const uint8_t* from, size_t bytes) {
  uint8_t* piece = thread_piece();
  const int flags = fcntl(file, F_GETFL);
  if (piece == nullptr || flags < 0 || fcntl(file, F_SETFL, flags | O_DIRECT) != 0) return 0;
  const size_t whole = bytes - bytes % block_bytes;
  size_t done = 0;
  while (done < whole) {
    const size_t next = whole - done < piece_bytes ? whole - done : piece_bytes;
    std::memcpy(piece, from + done, next);
    if (!write_piece(file, piece, next, done)) break;
    done += next;
  }
  return fcntl(file, F_SETFL, flags) == 0 ? done : 0;
}

// writeDirect(file: number, bytes: Uint8Array): number. Writes to the beginning of a new file, past
// the page cache, and returns the number of bytes. It leaves the last part of a block, and
// everything from the place where the file system refused. The caller writes the rest as usual and
// so gets the error.
napi_value write_direct(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2], result;
  Array<uint8_t> bytes;
  int32_t file = 0;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count < 2 ||
      napi_get_value_int32(env, arguments[0], &file) != napi_ok ||
      !read_array(env, arguments[1], napi_uint8_array, bytes) ||
      napi_create_double(env, static_cast<double>(write_blocks(file, bytes.data, bytes.size)), &result) != napi_ok) {
    napi_throw_type_error(env, nullptr, "writeDirect takes a file and a Uint8Array");
    return nullptr;
  }
  return result;
}

}  // namespace

void init_direct(napi_env env, napi_value exports) { add_function(env, exports, "writeDirect", write_direct); }
