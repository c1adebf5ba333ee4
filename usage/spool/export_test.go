package spool

import "io"

// Disk and File let tests bring a disk of their own.
type (
	Disk = disk
	File = file
)

// RealDisk is the one that is used otherwise.
func RealDisk() Disk { return osDisk{} }

// On is o on a disk, with files of so many bytes.
func On(o Options, d Disk, segment int64) Options {
	o.disk, o.segment = d, segment
	return o
}

// Scan is scan without the frames.
func Scan(b []byte) (frames, skipped, tail int) {
	skipped, tail = scan(b, 0, func(int, uint64, []byte) { frames++ })
	return frames, skipped, tail
}

// AppendFrame is appendFrame.
func AppendFrame(b []byte, number uint64, payload []byte) []byte {
	return appendFrame(b, number, payload)
}

var _ io.ReaderAt = File(nil)
