// A KeyRun (protocol.ts) as the key loops read it, and where a key points.
#pragma once
#include <cstddef>
#include <cstdint>

constexpr size_t KEY_BYTES_MAX = 1024;  // with its prefix; LMDB's own limit with 4 KiB pages is 1978

// The value of a key's record.
struct Place {
  uint32_t segment;
  uint32_t row;
};

// Checked: offsets rise and end with the bytes.
struct Run {
  uint32_t count;
  const int32_t* rows;
  const int32_t* offsets;
  const uint8_t* bytes;
};

inline bool read_run(const uint8_t* data, size_t length, Run* run) {
  if (length < 12 || (reinterpret_cast<uintptr_t>(data) & 3) != 0) return false;
  const int32_t* words = reinterpret_cast<const int32_t*>(data);
  if (words[0] < 0 || words[1] < 0) return false;
  const size_t count = static_cast<size_t>(words[0]), key_bytes = static_cast<size_t>(words[1]);
  if (length < 4 * (3 + 2 * count) + key_bytes) return false;
  run->count = static_cast<uint32_t>(count);
  run->rows = words + 2;
  run->offsets = words + 2 + count;
  run->bytes = data + 4 * (3 + 2 * count);
  if (run->offsets[0] != 0 || static_cast<size_t>(run->offsets[count]) != key_bytes) return false;
  for (size_t i = 0; i < count; i++)
    if (run->offsets[i + 1] < run->offsets[i]) return false;
  return true;
}
