// Reads a seal's entries from JavaScript's arguments, and adds the stage's functions to the module.
#include "entries.h"

#include "../../util/native/addon.h"
#include "parquet_calls.h"

namespace segment {

static bool refuse(napi_env env, const char* what) {
  napi_throw_type_error(env, nullptr, what);
  return false;
}

bool read_entries(napi_env env, napi_value* arguments, std::vector<Entry>& entries) {
  uint32_t count = 0;
  uint8_t* kinds = nullptr;
  size_t kinds_count = 0;
  if (napi_get_array_length(env, arguments[0], &count) != napi_ok ||
      napi_get_typedarray_info(env, arguments[2], nullptr, &kinds_count, reinterpret_cast<void**>(&kinds), nullptr,
                               nullptr) != napi_ok ||
      kinds_count != count)
    return refuse(env, "a seal takes batches, requests and kinds of one length");
  entries.reserve(count);
  for (uint32_t i = 0; i < count; i++) {
    napi_handle_scope scope;
    napi_open_handle_scope(env, &scope);
    napi_value batch, requests;
    void *bytes = nullptr, *numbers = nullptr;
    size_t length = 0, words = 0;
    const bool good = napi_get_element(env, arguments[0], i, &batch) == napi_ok &&
                      napi_get_typedarray_info(env, batch, nullptr, &length, &bytes, nullptr, nullptr) == napi_ok &&
                      napi_get_element(env, arguments[1], i, &requests) == napi_ok &&
                      napi_get_typedarray_info(env, requests, nullptr, &words, &numbers, nullptr, nullptr) == napi_ok;
    napi_close_handle_scope(env, scope);
    if (!good || length < 24) return refuse(env, "an entry is a Uint8Array and a Float64Array");
    const int32_t* header = static_cast<const int32_t*>(bytes);
    entries.push_back({static_cast<const uint8_t*>(bytes), static_cast<const double*>(numbers), words / 3,
                       static_cast<uint32_t>(header[2]), header[3], kinds[i] == 1});
  }
  return true;
}

}  // namespace segment

void init_segment(napi_env env, napi_value exports) {
  add_function(env, exports, "segmentSurvey", segment::survey);
  add_function(env, exports, "segmentFill", segment::fill);
  add_function(env, exports, "segmentExtremes", segment::extremes);
  add_function(env, exports, "parquetEncode", parquet::encode);
}
