// Turns builders into the bytes of a batch, which format/batch-layout.ts describes.
#pragma once
#include "builders.h"

namespace weir {

// The places of all buffers in a batch, computed before the batch's memory is allocated.
class Layout {
 public:
  Layout(uint32_t rows, const PayloadBuilder& payload, const Builder& key, const std::vector<Builder>& columns);

  // Bytes of the whole batch.
  size_t bytes() const { return end_; }

  // Writes every byte, gaps included.
  void write(uint8_t* out) const;

 private:
  struct Place {
    Kind kind;
    size_t nulls, validity, offsets, data, data_bytes;
  };
  size_t place(size_t bytes);
  void add(const Builder& column);
  void write_column(uint8_t* out, const Place& at, const Builder& column) const;

  uint32_t rows_;
  const PayloadBuilder& payload_;
  std::vector<const Builder*> columns_;
  std::vector<Place> places_;  // payload first, then those of columns_
  size_t end_;
};

}  // namespace weir
