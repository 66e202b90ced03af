module github.com/coppice-run/coppice/bench/system

go 1.26.0
