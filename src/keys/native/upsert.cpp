// The seal's key loop: every key of a sorted run is looked up once and put or deleted, and the places that
// keys pointed to before are collected.
//
// A cursor keeps its leaf page, so a run of neighbouring keys needs no search from the root. A new key costs
// one search (put with NOOVERWRITE); a known one costs the same search and an overwrite in place.
#include <algorithm>
#include <cstring>
#include <vector>

#include "key_run.h"
#include "store.h"

namespace {

class Upsert {
 public:
  Upsert(MDB_cursor* cursor, uint32_t segment) : cursor_(cursor), segment_(segment) {}

  // 0, or LMDB's error. `superseded` gets every old place.
  int all(const MDB_val& prefix, const Run& run, std::vector<Place>* superseded) {
    return each_key(prefix, run, [&](const MDB_val& key, int32_t row) {
      return row < 0 ? erase(key, superseded) : set(key, row, superseded);
    });
  }

 private:
  int set(MDB_val key, int32_t row, std::vector<Place>* superseded) {
    Place place{segment_, static_cast<uint32_t>(row)};
    MDB_val value{sizeof place, &place};
    int rc = mdb_cursor_put(cursor_, &key, &value, MDB_NOOVERWRITE);
    if (rc != MDB_KEYEXIST) return rc;
    rc = keep(value, superseded);  // `value` is the old one now
    if (rc != 0) return rc;
    value = MDB_val{sizeof place, &place};
    return mdb_cursor_put(cursor_, &key, &value, MDB_CURRENT);
  }

  int erase(MDB_val key, std::vector<Place>* superseded) {
    MDB_val value;
    int rc = mdb_cursor_get(cursor_, &key, &value, MDB_SET);
    if (rc == MDB_NOTFOUND) return 0;
    if (rc == 0) rc = keep(value, superseded);
    return rc != 0 ? rc : mdb_cursor_del(cursor_, 0);
  }

  static int keep(const MDB_val& value, std::vector<Place>* superseded) {
    if (value.mv_size < sizeof(Place)) return MDB_CORRUPTED;
    Place old;
    memcpy(&old, value.mv_data, sizeof old);
    superseded->push_back(old);
    return 0;
  }

  MDB_cursor* cursor_;
  uint32_t segment_;
};

}  // namespace

// lmdbUpsertKeys(store, prefix, run, segment): Uint32Array of (segment, row), sorted: where keys pointed before.
napi_value upsert_keys(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  Store* store = writing(env, info, 4, arguments);
  if (store == nullptr) return nullptr;
  MDB_val prefix;
  void* data;
  size_t length;
  uint32_t segment;
  Run run;
  if (!bytes_of(env, arguments[1], &prefix) || prefix.mv_size > 16 ||
      napi_get_arraybuffer_info(env, arguments[2], &data, &length) != napi_ok ||
      napi_get_value_uint32(env, arguments[3], &segment) != napi_ok)
    return throw_usage(env, "lmdbUpsertKeys takes a store, a prefix, a key run and a segment");
  if (!read_run(static_cast<const uint8_t*>(data), length, &run)) return throw_usage(env, "not a key run");
  MDB_cursor* cursor;
  int rc = mdb_cursor_open(store->txn, store->dbi, &cursor);
  if (rc != 0) return throw_lmdb(env, rc);
  std::vector<Place> superseded;
  rc = Upsert(cursor, segment).all(prefix, run, &superseded);
  mdb_cursor_close(cursor);
  if (rc != 0) return throw_lmdb(env, rc);
  std::sort(superseded.begin(), superseded.end(), [](const Place& a, const Place& b) {
    return a.segment != b.segment ? a.segment < b.segment : a.row < b.row;
  });
  return places_array(env, superseded);
}
