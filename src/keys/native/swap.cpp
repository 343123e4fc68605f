// The swap's key loop: every key of a sorted run is looked up once. Where it still points into a segment that goes,
// it moves to its new row, or goes too; where it does not, the row was updated or deleted meanwhile and its copy is
// reported, to be marked. How many keys pointed into each segment is reported too: the caller holds it against its rows.
#include <algorithm>
#include <cstring>
#include <vector>

#include "key_run.h"
#include "store.h"

namespace {

class Swap {
 public:
  Swap(MDB_cursor* cursor, uint32_t segment, const Array<uint32_t>& gone)
      : cursor_(cursor), segment_(segment), gone_(gone.data), gone_end_(gone.data + gone.size), found_(gone.size) {}

  // By place in `gone`: keys that pointed into it.
  const std::vector<uint32_t>& found() const { return found_; }

  // 0, or LMDB's error. `stale` gets the rows of `segment_` that are not the record any more.
  int all(const MDB_val& prefix, const Run& run, std::vector<uint32_t>* stale) {
    return each_key(prefix, run, [&](const MDB_val& key, int32_t row) { return one(key, row, stale); });
  }

 private:
  int one(MDB_val key, int32_t row, std::vector<uint32_t>* stale) {
    MDB_val value;
    int rc = mdb_cursor_get(cursor_, &key, &value, MDB_SET);
    if (rc != 0 && rc != MDB_NOTFOUND) return rc;
    if (rc == 0 && value.mv_size < sizeof(Place)) return MDB_CORRUPTED;
    const size_t at = rc == MDB_NOTFOUND ? found_.size() : place_in_gone(value);
    if (at == found_.size()) {
      if (row >= 0) stale->push_back(static_cast<uint32_t>(row));
      return 0;
    }
    found_[at] += 1;
    if (row < 0) return mdb_cursor_del(cursor_, 0);
    Place place{segment_, static_cast<uint32_t>(row)};
    value = MDB_val{sizeof place, &place};
    return mdb_cursor_put(cursor_, &key, &value, MDB_CURRENT);
  }

  // The count of `gone` where it is none of them.
  size_t place_in_gone(const MDB_val& value) const {
    Place place;
    memcpy(&place, value.mv_data, sizeof place);
    const uint32_t* at = std::lower_bound(gone_, gone_end_, place.segment);
    return at != gone_end_ && *at == place.segment ? static_cast<size_t>(at - gone_) : found_.size();
  }

  MDB_cursor* cursor_;
  uint32_t segment_;
  const uint32_t* gone_;
  const uint32_t* gone_end_;
  std::vector<uint32_t> found_;
};

napi_value result_of(napi_env env, std::vector<uint32_t>* stale, const std::vector<uint32_t>& found) {
  std::sort(stale->begin(), stale->end());
  napi_value result;
  napi_value stale_rows = numbers_array(env, stale->data(), stale->size());
  napi_value found_keys = numbers_array(env, found.data(), found.size());
  if (stale_rows == nullptr || found_keys == nullptr || napi_create_object(env, &result) != napi_ok ||
      napi_set_named_property(env, result, "stale", stale_rows) != napi_ok ||
      napi_set_named_property(env, result, "found", found_keys) != napi_ok)
    return nullptr;
  return result;
}

}  // namespace

// lmdbSwapKeys(store, prefix, run, segment, gone): {stale, found}. `stale`: Uint32Array of rows in `segment`, sorted, that are
// superseded already. `found`: Uint32Array parallel to `gone`, a sorted Uint32Array of segments.
napi_value swap_keys(napi_env env, napi_callback_info info) {
  napi_value arguments[5];
  Store* store = writing(env, info, 5, arguments);
  if (store == nullptr) return nullptr;
  MDB_val prefix;
  void* data;
  size_t length;
  uint32_t segment;
  Array<uint32_t> gone;
  Run run;
  if (!bytes_of(env, arguments[1], &prefix) || prefix.mv_size > 16 ||
      napi_get_arraybuffer_info(env, arguments[2], &data, &length) != napi_ok ||
      napi_get_value_uint32(env, arguments[3], &segment) != napi_ok ||
      !read_array(env, arguments[4], napi_uint32_array, gone) || !std::is_sorted(gone.data, gone.data + gone.size))
    return throw_usage(env, "lmdbSwapKeys takes a store, a prefix, a key run, a segment and sorted segments");
  if (!read_run(static_cast<const uint8_t*>(data), length, &run)) return throw_usage(env, "not a key run");
  MDB_cursor* cursor;
  int rc = mdb_cursor_open(store->txn, store->dbi, &cursor);
  if (rc != 0) return throw_lmdb(env, rc);
  std::vector<uint32_t> stale;
  Swap swap(cursor, segment, gone);
  rc = swap.all(prefix, run, &stale);
  mdb_cursor_close(cursor);
  if (rc != 0) return throw_lmdb(env, rc);
  return result_of(env, &stale, swap.found());
}
