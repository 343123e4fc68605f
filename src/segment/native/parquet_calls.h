// The encoder's function for the module.
#pragma once
#include <node_api.h>

namespace parquet {

// parquetEncode(stream, out, words, text, lengths[, batches, requests, kinds, keep]): writes the file into `out`; its bytes, or 0 where it does not fit.
//   words    rows, rows of a row group (a multiple of 8), then per column: type, flags, places of validity, offsets
//            and data in the stream (-1: none)
//            (of JSON without flags, data -1: the payload column of the kept rows of `batches`, see entries.h)
//   text     columns' names, then keys and values of the footer by turns, one behind the other; `lengths` in bytes
napi_value encode(napi_env env, napi_callback_info info);

}  // namespace parquet
