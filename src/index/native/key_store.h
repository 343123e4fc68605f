// What the files of the native key store share: the open environment, a key run, and small helpers.
#pragma once
#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lmdb.h"

#include "../../util/native/addon.h"
#include "../../util/native/typed_array.h"

constexpr size_t KEY_BYTES_MAX = 1024;  // with its prefix; LMDB's own limit with 4 KiB pages is 1978

// One open environment. All calls come from the thread that opened it.
struct Store {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;  // the open write transaction, if any
  MDB_dbi dbi = 0;
};

// The value of a key's entry: where its live row stands.
struct Place {
  uint32_t segment;
  uint32_t row;
};

// A KeyRun (format/key-run.ts) whose offsets were checked: they rise and end with the bytes.
struct Run {
  uint32_t count;
  const int32_t* rows;
  const int32_t* offsets;
  const uint8_t* bytes;
};

// Returns false where the bytes are not a key run.
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

napi_value throw_lmdb(napi_env env, int rc);
napi_value throw_usage(napi_env env, const char* what);
bool bytes_of(napi_env env, napi_value value, MDB_val* into);
Store* writing(napi_env env, napi_callback_info info, size_t wanted, napi_value* arguments);

napi_value upsert_keys(napi_env env, napi_callback_info info);      // key_loops.cpp
napi_value move_keys(napi_env env, napi_callback_info info);        // key_loops.cpp
napi_value lookup_keys(napi_env env, napi_callback_info info);      // key_loops.cpp
napi_value segment_key_run(napi_env env, napi_callback_info info);  // segment_keys.cpp
