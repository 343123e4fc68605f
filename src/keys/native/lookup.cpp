// Reads of many keys for checks: where each key of a sorted run points, and how many keys there are.
#include <cstring>
#include <vector>

#include "key_run.h"
#include "store.h"

namespace {

constexpr uint32_t NOWHERE = 0xffffffff;

// 0, or LMDB's error.
int look_up(MDB_cursor* cursor, const MDB_val& prefix, const Run& run, std::vector<Place>* places) {
  return each_key(prefix, run, [&](MDB_val key, int32_t) {
    MDB_val value;
    Place place{NOWHERE, NOWHERE};
    const int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET);
    if (rc != 0 && rc != MDB_NOTFOUND) return rc;
    if (rc == 0 && value.mv_size < sizeof place) return MDB_CORRUPTED;
    if (rc == 0) memcpy(&place, value.mv_data, sizeof place);
    places->push_back(place);
    return 0;
  });
}

}  // namespace

// lmdbLookupKeys(store, prefix, run): Uint32Array of (segment, row) per key, (0xffffffff, 0xffffffff) where it is not there.
napi_value lookup_keys(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  Store* store = writing(env, info, 3, arguments);
  if (store == nullptr) return nullptr;
  MDB_val prefix;
  void* data;
  size_t length;
  Run run;
  if (!bytes_of(env, arguments[1], &prefix) || prefix.mv_size > 16 ||
      napi_get_arraybuffer_info(env, arguments[2], &data, &length) != napi_ok)
    return throw_usage(env, "lmdbLookupKeys takes a store, a prefix and a key run");
  if (!read_run(static_cast<const uint8_t*>(data), length, &run)) return throw_usage(env, "not a key run");
  MDB_cursor* cursor;
  int rc = mdb_cursor_open(store->txn, store->dbi, &cursor);
  if (rc != 0) return throw_lmdb(env, rc);
  std::vector<Place> places;
  places.reserve(run.count);
  rc = look_up(cursor, prefix, run, &places);
  mdb_cursor_close(cursor);
  return rc != 0 ? throw_lmdb(env, rc) : places_array(env, places);
}

// lmdbCountRange(store, from, to): how many entries there are with from ≤ key < to.
napi_value count_range(napi_env env, napi_callback_info info) {
  napi_value arguments[3], result;
  Store* store = writing(env, info, 3, arguments);
  if (store == nullptr) return nullptr;
  MDB_val key, to, value;
  if (!bytes_of(env, arguments[1], &key) || !bytes_of(env, arguments[2], &to))
    return throw_usage(env, "a range is two keys");
  MDB_cursor* cursor;
  int rc = mdb_cursor_open(store->txn, store->dbi, &cursor);
  if (rc != 0) return throw_lmdb(env, rc);
  uint64_t count = 0;
  rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
  while (rc == 0 && below(key, to)) {
    count++;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
  }
  mdb_cursor_close(cursor);
  if (rc != 0 && rc != MDB_NOTFOUND) return throw_lmdb(env, rc);
  napi_create_double(env, static_cast<double>(count), &result);
  return result;
}
