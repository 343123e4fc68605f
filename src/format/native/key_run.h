// Key runs: sorted keys and their rows in one buffer. ../key-run.ts describes the bytes and is the
// specification.
#pragma once
#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// A key run whose offsets were checked: they rise and end with the bytes.
struct KeyRun {
  uint32_t count;
  const int32_t* rows;
  const int32_t* offsets;
  const uint8_t* bytes;
  const uint8_t* versions;  // VERSION_BYTES for each key; null in a run without versions
};

// Bytes of a row's version, as write_key_int64 and write_key_double (parse/native/key.h) write it.
constexpr size_t VERSION_BYTES = 8;

// How a run with versions says that row `row` follows a delete of its key. Of a row so given, it is
// the row.
constexpr int32_t after_delete(int32_t row) { return -2 - row; }

constexpr size_t key_run_bytes(size_t count, size_t key_bytes) { return 4 * (3 + 2 * count) + key_bytes; }

// Returns false where the bytes are not a key run.
inline bool read_key_run(const uint8_t* data, size_t length, KeyRun* run) {
  if (length < key_run_bytes(0, 0) || (reinterpret_cast<uintptr_t>(data) & 3) != 0) return false;
  const int32_t* words = reinterpret_cast<const int32_t*>(data);
  if (words[0] < 0 || words[1] < 0) return false;
  const size_t count = static_cast<size_t>(words[0]), key_bytes = static_cast<size_t>(words[1]);
  if (length < key_run_bytes(count, key_bytes)) return false;
  run->count = static_cast<uint32_t>(count);
  run->rows = words + 2;
  run->offsets = words + 2 + count;
  run->bytes = data + key_run_bytes(count, 0);
  const bool has_versions = count > 0 && length == key_run_bytes(count, key_bytes) + VERSION_BYTES * count;
  run->versions = has_versions ? data + key_run_bytes(count, key_bytes) : nullptr;
  if (run->offsets[0] != 0 || static_cast<size_t>(run->offsets[count]) != key_bytes) return false;
  for (size_t i = 0; i < count; i++)
    if (run->offsets[i + 1] < run->offsets[i]) return false;
  return true;
}

// Writes a key run into an ArrayBuffer of its own. The keys come in ascending order.
class KeyRunWriter {
 public:
  // `buffer` gets the ArrayBuffer. Returns false where there is no memory for it.
  bool open(napi_env env, size_t count, size_t key_bytes, napi_value* buffer, bool has_versions = false) {
    void* memory = nullptr;
    const size_t bytes = key_run_bytes(count, key_bytes) + (has_versions ? VERSION_BYTES * count : 0);
    if (napi_create_arraybuffer(env, bytes, &memory, buffer) != napi_ok) return false;
    int32_t* words = static_cast<int32_t*>(memory);
    words[0] = static_cast<int32_t>(count);
    words[1] = static_cast<int32_t>(key_bytes);
    row_ = words + 2;
    offset_ = words + 2 + count;
    bytes_ = static_cast<uint8_t*>(memory) + key_run_bytes(count, 0);
    version_ = bytes_ + key_bytes;
    *offset_ = 0;
    return true;
  }

  // Appends a key with its row; -1 where the key is deleted.
  void add(const uint8_t* key, size_t length, int32_t row) {
    if (length > 0) std::memcpy(bytes_ + *offset_, key, length);
    *row_++ = row;
    offset_[1] = *offset_ + static_cast<int32_t>(length);
    offset_++;
  }

  // Writes the version of the key that was appended last.
  void add_version(const uint8_t* version) {
    std::memcpy(version_, version, VERSION_BYTES);
    version_ += VERSION_BYTES;
  }

 private:
  int32_t* row_ = nullptr;
  int32_t* offset_ = nullptr;  // where the next key begins
  uint8_t* bytes_ = nullptr;
  uint8_t* version_ = nullptr;  // where the next version goes
};

// A key to sort. It holds the key's first KEY_ITEM_BYTES bytes as numbers, filled with zeros, so
// that most comparisons touch nothing else.
struct KeyItem {
  uint64_t high, low;
  uint32_t row;
};

constexpr size_t KEY_ITEM_BYTES = 16;

inline uint64_t big_endian_word(const uint8_t* bytes, size_t length) {
  uint64_t word = 0;
  if (length >= 8) std::memcpy(&word, bytes, 8);
  else if (length > 0) std::memcpy(&word, bytes, length);
  return __builtin_bswap64(word);
}

inline KeyItem key_item(const uint8_t* key, size_t length, uint32_t row) {
  return {big_endian_word(key, length), length > 8 ? big_endian_word(key + 8, length - 8) : 0, row};
}
