// The files of the native key store share the open environment and small helpers.
#pragma once
#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lmdb.h"

#include "../../format/native/key_run.h"
#include "../../util/native/addon.h"
#include "../../util/native/typed_array.h"

// Bytes of a key with its prefix; eight texts of 201 bytes are the longest. LMDB's own limit with
// 4 KiB pages is 1978.
constexpr size_t KEY_BYTES_MAX = 1664;

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

// The same in a pool with a version column.
struct RankedPlace {
  Place place;
  uint8_t version[VERSION_BYTES];
};

napi_value throw_lmdb(napi_env env, int rc);
napi_value throw_usage(napi_env env, const char* what);
bool bytes_of(napi_env env, napi_value value, MDB_val* into);

// key_loops.cpp, each with a store whose transaction is open
napi_value upsert_keys(napi_env env, Store* store, napi_value* arguments);
napi_value move_keys(napi_env env, Store* store, napi_value* arguments);
napi_value lookup_keys(napi_env env, Store* store, napi_value* arguments);

napi_value segment_key_run(napi_env env, napi_callback_info info);  // segment_keys.cpp
