// What the files of the native key store share.
#pragma once
#include <node_api.h>

#include <cstring>
#include <vector>

#include "lmdb.h"

#include "../../util/native/addon.h"
#include "../../util/native/typed_array.h"
#include "key_run.h"

// One open environment. All calls come from the thread that opened it.
struct Store {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;  // the open write transaction, if any
  MDB_dbi dbi = 0;
};

napi_value throw_lmdb(napi_env env, int rc);
napi_value throw_usage(napi_env env, const char* what);
bool bytes_of(napi_env env, napi_value value, MDB_val* into);
Store* store_of(napi_env env, napi_value value);
Store* writing(napi_env env, napi_callback_info info, size_t wanted, napi_value* arguments);

napi_value numbers_array(napi_env env, const uint32_t* numbers, size_t count);

// segment, row, segment, row, …
inline napi_value places_array(napi_env env, const std::vector<Place>& places) {
  static_assert(sizeof(Place) == 2 * sizeof(uint32_t), "two numbers");
  return numbers_array(env, reinterpret_cast<const uint32_t*>(places.data()), 2 * places.size());
}

// As LMDB orders keys: by bytes, then the shorter first.
inline bool below(const MDB_val& a, const MDB_val& b) {
  const int order = memcmp(a.mv_data, b.mv_data, a.mv_size < b.mv_size ? a.mv_size : b.mv_size);
  return order != 0 ? order < 0 : a.mv_size < b.mv_size;
}

// Calls `one(key, row)` for each key of a run, behind `prefix`, until one of them returns other than 0. 0, or LMDB's error.
template <class One>
int each_key(const MDB_val& prefix, const Run& run, One one) {
  uint8_t key_bytes[KEY_BYTES_MAX];
  memcpy(key_bytes, prefix.mv_data, prefix.mv_size);
  for (uint32_t i = 0; i < run.count; i++) {
    const size_t bytes = static_cast<size_t>(run.offsets[i + 1] - run.offsets[i]);
    if (prefix.mv_size + bytes > KEY_BYTES_MAX) return MDB_BAD_VALSIZE;
    memcpy(key_bytes + prefix.mv_size, run.bytes + run.offsets[i], bytes);
    const int rc = one(MDB_val{prefix.mv_size + bytes, key_bytes}, run.rows[i]);
    if (rc != 0) return rc;
  }
  return 0;
}

napi_value upsert_keys(napi_env env, napi_callback_info info);  // upsert.cpp
napi_value swap_keys(napi_env env, napi_callback_info info);    // swap.cpp
napi_value lookup_keys(napi_env env, napi_callback_info info);  // lookup.cpp
napi_value count_range(napi_env env, napi_callback_info info);  // lookup.cpp
napi_value segment_key_run(napi_env env, napi_callback_info info);  // segment_keys.cpp
