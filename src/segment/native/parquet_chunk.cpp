// One column of one row group: a dictionary page where there is a dictionary, and data pages (version 1).
#include "lz4.h"
#include "parquet.h"
#include "parquet_thrift.h"
#include "parquet_values.h"

namespace parquet {

namespace {

constexpr size_t PAGE_HEADER_BYTES = 64;  // more than any page header takes
// So much of a chunk's first page is compressed for a try.
constexpr size_t TRY_BYTES = 64 << 10;

struct Page {
  const uint8_t* data;
  size_t bytes;
  size_t values;  // nulls included
};

unsigned width_of(size_t distinct) {
  unsigned width = 1;
  while ((size_t{1} << width) < distinct) width++;
  return width;
}

size_t put_header(uint8_t* to, const Page& page, size_t stored, bool is_dictionary, Encoding encoding) {
  Sink sink(to, PAGE_HEADER_BYTES);
  Thrift header(sink);
  header.begin();
  header.i32(1, is_dictionary ? 2 : 0);
  header.i32(2, static_cast<int32_t>(page.bytes));
  header.i32(3, static_cast<int32_t>(stored));
  header.begin(is_dictionary ? 7 : 5);
  header.i32(1, static_cast<int32_t>(page.values));
  header.i32(2, encoding);
  if (!is_dictionary) header.i32(3, RLE), header.i32(4, RLE);
  header.end();
  header.end();
  return sink.size();
}

// The page's bytes are compressed to where they end up, if their header is as long as that of a page a quarter as large.
void put_page(Sink& file, Chunk& chunk, const Page& page, bool is_dictionary, Encoding encoding) {
  if (file.room() < PAGE_HEADER_BYTES) return void(file.is_full = true);
  uint8_t header[PAGE_HEADER_BYTES];
  size_t stored = page.bytes, header_bytes;
  if (chunk.codec == LZ4_RAW) {
    const size_t guessed = put_header(header, page, page.bytes / 4, is_dictionary, encoding);
    uint8_t* body = file.at + guessed;
    const size_t room = file.room() - PAGE_HEADER_BYTES;
    const int capacity = static_cast<int>(room < INT32_MAX ? room : INT32_MAX);
    const int packed = LZ4_compress_default(reinterpret_cast<const char*>(page.data), reinterpret_cast<char*>(body),
                                            static_cast<int>(page.bytes), capacity);
    if (packed <= 0) return void(file.is_full = true);
    stored = static_cast<size_t>(packed);
    header_bytes = put_header(header, page, stored, is_dictionary, encoding);
    if (header_bytes != guessed) std::memmove(file.at + header_bytes, body, stored);
    std::memcpy(file.at, header, header_bytes);
    file.at += header_bytes + stored;
  } else {
    header_bytes = put_header(header, page, stored, is_dictionary, encoding);
    file.put(header, header_bytes);
    file.put(page.data, page.bytes);
  }
  chunk.uncompressed_bytes += static_cast<int64_t>(header_bytes + page.bytes);
}

// Random ids and packed indexes hardly shrink: then reading them must not pay for it.
Codec codec_for(const Column& column, const Page& page, const Sink& file) {
  if (column.type == JSON) return LZ4_RAW;
  const size_t tried = page.bytes < TRY_BYTES ? page.bytes : TRY_BYTES, wanted = tried - tried / 16;
  if (tried < 64 || file.room() < tried) return UNCOMPRESSED;
  const int packed = LZ4_compress_default(reinterpret_cast<const char*>(page.data), reinterpret_cast<char*>(file.at),
                                          static_cast<int>(tried), static_cast<int>(wanted));
  return packed > 0 ? LZ4_RAW : UNCOMPRESSED;
}

Page dictionary_page(const Dictionary& dictionary, Scratch& scratch) {
  uint8_t *begin = scratch.of(dictionary.bytes + 8), *at = begin;
  for (const Text text : dictionary.values) at = put_text(at, text);
  return {begin, static_cast<size_t>(at - begin), dictionary.values.size()};
}

// The rows [from, to) as a page: levels where the column is optional, then indexes or values.
// `index`: how many of the dictionary's indexes the pages before have taken; moved on.
Page data_page(Workspace& workspace, const Column& column, size_t from, size_t to, const Dictionary* dictionary,
               size_t& index) {
  const size_t nulls = count_nulls(column, from, to), values = to - from - nulls;
  const unsigned width = dictionary == nullptr ? 0 : width_of(dictionary->values.size());
  const size_t body = dictionary == nullptr ? plain_bytes_max(column, from, to) : indexes_bytes_max(values, width) + 1;
  uint8_t *begin = workspace.page.of(levels_bytes_max(to - from) + body + 8), *at = begin;
  if (column.flags & OPTIONAL) at = put_levels(at, column, from, to, nulls);
  if (dictionary != nullptr) {
    *at++ = static_cast<uint8_t>(width);
    at = put_indexes(at, dictionary->indexes.data() + index, values, width);
    index += values;
  } else {
    at = put_plain(at, column, from, to, nulls > 0);
  }
  return {begin, static_cast<size_t>(at - begin), to - from};
}

}  // namespace

Chunk put_chunk(Sink& file, Workspace& workspace, const Column& column, size_t from, size_t to) {
  Chunk chunk;
  chunk.offset = static_cast<int64_t>(file.size());
  chunk.rows = static_cast<int64_t>(to - from);
  chunk.statistics.nulls = count_nulls(column, from, to);
  const bool has_dictionary = (column.flags & DICTIONARY) && workspace.dictionary.build(column, from, to);
  const Dictionary* dictionary = has_dictionary ? &workspace.dictionary : nullptr;
  if (column.flags & STATISTICS) put_range(chunk.statistics, column, from, to, dictionary);
  size_t index = 0;
  for (size_t row = from; row < to && !file.is_full; chunk.pages++) {
    const size_t next = dictionary == nullptr ? page_end(column, row, to) : (to - row > PAGE_ROWS ? row + PAGE_ROWS : to);
    const Page page = data_page(workspace, column, row, next, dictionary, index);
    if (row == from) {
      chunk.codec = codec_for(column, page, file);
      if (dictionary != nullptr) {
        chunk.dictionary_offset = chunk.offset;
        put_page(file, chunk, dictionary_page(*dictionary, workspace.dictionary_page), true, PLAIN);
      }
      chunk.data_offset = static_cast<int64_t>(file.size());
    }
    put_page(file, chunk, page, false, dictionary == nullptr ? PLAIN : RLE_DICTIONARY);
    row = next;
  }
  chunk.bytes = static_cast<int64_t>(file.size()) - chunk.offset;
  return chunk;
}

}  // namespace parquet
