module tickwheel-bench-go

go 1.23
