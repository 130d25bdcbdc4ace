module github.com/tickwheel/tickwheel/clients/go

go 1.24
